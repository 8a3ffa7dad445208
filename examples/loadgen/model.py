"""The network that is benchmarked: a small text encoder with seeded random weights.

Four transformer layers over 8 tokens and a classifier, about 20 million weights. One sample takes
a few milliseconds on one core, mostly for reading weights, so that batches pay; the weights are
more than a core's caches hold, so that eight-bit ones pay, too. It is written with plain ONNX
operators (LayerNorm and GELU in pieces, as exporters leave them) so that graph optimisation has
something to do.

Run it as ``python examples/loadgen/model.py encoder.onnx`` to look at the network.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from shape import ENCODER, Shape

OPSET = 17
IR_VERSION = 9
"""Old enough for the oldest ONNX Runtime that is allowed."""

Weights = NDArray[np.float32] | NDArray[np.int64]


@dataclass
class _Graph:
    """Nodes and weights as they are added; each value gets a name of its own."""

    rng: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: dict[str, Weights] = field(default_factory=dict)

    def constant(self, array: Weights) -> str:
        """A weight, by name."""
        name = f"w{len(self.weights)}"
        self.weights[name] = array
        return name

    def scalar(self, value: float) -> str:
        """A number as a weight."""
        return self.constant(np.array(value, np.float32))

    def matrix(self, rows: int, columns: int) -> str:
        """Random weights that keep the size of what goes through them."""
        values = self.rng.standard_normal((rows, columns), dtype=np.float32)
        return self.constant(values / np.float32(np.sqrt(rows)))

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """One node; the name of what it computes."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], name, **attributes))
        return name

    def linear(self, value: str, rows: int, columns: int) -> str:
        """A dense layer with a bias."""
        bias = self.constant(self.rng.standard_normal(columns, dtype=np.float32) * np.float32(0.1))
        return self.add("Add", self.add("MatMul", value, self.matrix(rows, columns)), bias)

    def layer_norm(self, value: str, width: int) -> str:
        """Normalised over the last axis."""
        centred = self.add("Sub", value, self.add("ReduceMean", value, axes=[-1], keepdims=1))
        square = self.add("Pow", centred, self.scalar(2.0))
        variance = self.add("ReduceMean", square, axes=[-1], keepdims=1)
        deviation = self.add("Sqrt", self.add("Add", variance, self.scalar(1e-5)))
        scaled = self.add(
            "Mul",
            self.add("Div", centred, deviation),
            self.constant(np.ones(width, np.float32)),
        )
        return self.add("Add", scaled, self.constant(np.zeros(width, np.float32)))

    def gelu(self, value: str) -> str:
        """The activation between the two dense layers."""
        inner = self.add("Erf", self.add("Div", value, self.scalar(float(np.sqrt(2.0)))))
        product = self.add("Mul", value, self.add("Add", inner, self.scalar(1.0)))
        return self.add("Mul", product, self.scalar(0.5))


def _attention(graph: _Graph, value: str, shape: Shape) -> str:
    """Every token looks at every other."""
    depth = shape.width // shape.heads
    split = graph.constant(np.array([0, shape.tokens, shape.heads, depth], np.int64))
    joined = graph.constant(np.array([0, shape.tokens, shape.width], np.int64))

    def heads(order: Sequence[int]) -> str:
        projected = graph.linear(value, shape.width, shape.width)
        return graph.add("Transpose", graph.add("Reshape", projected, split), perm=order)

    queries, keys, values = heads([0, 2, 1, 3]), heads([0, 2, 3, 1]), heads([0, 2, 1, 3])
    scores = graph.add(
        "Mul", graph.add("MatMul", queries, keys), graph.scalar(1 / float(np.sqrt(depth)))
    )
    mixed = graph.add("MatMul", graph.add("Softmax", scores, axis=-1), values)
    together = graph.add("Reshape", graph.add("Transpose", mixed, perm=[0, 2, 1, 3]), joined)
    return graph.linear(together, shape.width, shape.width)


def _layer(graph: _Graph, value: str, shape: Shape) -> str:
    """Attention and two dense layers, each beside a short cut."""
    attended = _attention(graph, graph.layer_norm(value, shape.width), shape)
    value = graph.add("Add", value, attended)
    wide = graph.linear(graph.layer_norm(value, shape.width), shape.width, 4 * shape.width)
    narrow = graph.linear(graph.gelu(wide), 4 * shape.width, shape.width)
    return graph.add("Add", value, narrow)


def make_model(seed: int = 0, shape: Shape = ENCODER) -> onnx.ModelProto:
    """The network: ``tokens`` (any number of rows of word numbers) to ``scores`` per class."""
    graph = _Graph(np.random.default_rng(seed))
    words = graph.constant(graph.rng.standard_normal((shape.words, shape.width), dtype=np.float32))
    places = graph.constant(
        graph.rng.standard_normal((1, shape.tokens, shape.width), dtype=np.float32)
    )
    value = graph.add("Add", graph.add("Gather", words, "tokens"), places)
    for _ in range(shape.layers):
        value = _layer(graph, value, shape)
    pooled = graph.add("ReduceMean", graph.layer_norm(value, shape.width), axes=[1], keepdims=0)
    scores = graph.linear(pooled, shape.width, shape.classes)
    graph.nodes.append(helper.make_node("Identity", [scores], ["scores"], "scores"))
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "encoder",
            [helper.make_tensor_value_info("tokens", TensorProto.INT64, ["n", shape.tokens])],
            [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", shape.classes])],
            [numpy_helper.from_array(array, name) for name, array in graph.weights.items()],
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
    )
    onnx.checker.check_model(model)
    return model


def main() -> None:
    """Write the network to a file."""
    parser = argparse.ArgumentParser(description=make_model.__doc__)
    parser.add_argument("path", type=Path, help="the ONNX file to write")
    parser.add_argument("--seed", type=int, default=0, help="of the weights")
    arguments = parser.parse_args()
    onnx.save(make_model(arguments.seed), arguments.path)


if __name__ == "__main__":
    main()
