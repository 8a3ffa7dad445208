"""States of games as graphs of networkx."""

from __future__ import annotations

from typing import Any

import networkx as nx

from skipjack.learn.loops.game import MARKS, GameState, LoopGame
from skipjack.solvers.cpu.nest import ranges


class LoopGraph(nx.DiGraph):  # type: ignore[misc]
    """A directed graph that is equal to one with the same nodes, edges and attributes."""

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, LoopGraph) and nx.utils.graphs_equal(self, other)
        return bool(same)

    __hash__ = nx.DiGraph.__hash__


def tree_graph(game: LoopGame, state: GameState) -> LoopGraph:
    """The loops as a chain of nodes ``L0``, ``L1`` ..., followed by the body.

    Nodes have a `kind` (`loop` or `op`); those of loops also `variable`, `size`, `tail`, `cursor`
    and one 0 or 1 for each mark. Edges have the kind `control`.
    """
    graph = LoopGraph()
    covered = ranges(state.schedule, game.nest)
    above = ""
    for at, loop in enumerate(state.schedule.loops):
        rounds, tail = divmod(covered[at], loop.step)
        marks = {name: int(loop.mark is mark) for name, mark in MARKS.items()}
        facts: dict[str, Any] = {"variable": loop.variable, "size": rounds, "tail": tail}
        graph.add_node(f"L{at}", kind="loop", cursor=int(at == state.cursor), **facts, **marks)
        if above:
            graph.add_edge(above, f"L{at}", kind="control")
        above = f"L{at}"
    graph.add_node("body", kind="op")
    if above:
        graph.add_edge(above, "body", kind="control")
    return graph


def whole_graph(game: LoopGame, state: GameState) -> LoopGraph:
    """The tree with a node for each array.

    Edges of the kind `data` lead from input arrays to the body, and from the body to the output.
    Edges of the kind `stride` lead from loops to the arrays that they move in, with the `stride` in
    elements.
    """
    graph = tree_graph(game, state)
    nest = game.nest
    for access in (*nest.inputs, nest.output):
        graph.add_node(access.tensor.name, kind="data", elements=access.tensor.size)
    for access in nest.inputs:
        graph.add_edge(access.tensor.name, "body", kind="data")
    graph.add_edge("body", nest.output.tensor.name, kind="data")
    for at, loop in enumerate(state.schedule.loops):
        for access in (*nest.inputs, nest.output):
            stride = access.stride(loop.variable) * loop.step
            if stride:
                graph.add_edge(f"L{at}", access.tensor.name, kind="stride", stride=stride)
    return graph
