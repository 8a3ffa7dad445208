"""Programs of passes over rows: softmax, layer norm, batch norm.

`plan` says how a program is run and estimates its time. `sweep` writes one pass over some rows,
with `values` for the expressions and reductions in it. `blocks` and `kernel` write the loops over
rows: `kernel` with accumulators in registers, `blocks` with accumulators in memory, for groups of
rows that lie in pieces or are divided among threads. `solver` has the search space.
"""
