"""Solvers that build kernels for CPUs.

They write LLVM IR as text and compile it with LLVM. `nest` holds the schedules of loop nests (data
alone, no code generation); `ir` holds what all generators share: arithmetic on vectors, the entry
of a kernel, kernels of several stages. `nest_code`, `gemm`, `rows` and `copy` generate one kind of
kernel each: a scheduled loop nest, a matrix product, a program of passes over rows, a strided
copy. `conv` makes convolutions of these. Imports go one way: `ir` and `nest`, then `nest_code`,
`gemm`, `rows` and `copy`, then `conv`.
"""
