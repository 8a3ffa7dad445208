"""Convolutions as packed matrix products (`skipjack.solvers.cpu.gemm`).

`gemm1x1` handles 1x1 filters, whose product reads the pixels where they are; `im2col` copies the
patches of any other convolution first. `products` says how pixels and channels become rows and
columns of a product.
"""
