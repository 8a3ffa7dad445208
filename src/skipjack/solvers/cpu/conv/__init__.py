"""Convolutions on CPUs.

Each folder is one algorithm: `direct` (loop nests over images in a layout of their own),
`explicit_gemm` (matrix products of pixels, or of patches copied by im2col), `implicit_gemm` (a
matrix product that reads images in place), `winograd` (3x3 filters by F(2x2, 3x3) and F(4x4, 3x3))
and `depthwise` (one channel per group). `requirements` says which convolutions an algorithm
accepts.
"""
