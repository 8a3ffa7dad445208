"""Depthwise convolutions: one channel per group, images read in place.

`plan` has the settings of the code and its cost estimate. `window` describes a window that slides
down the rows of a plane so that every row is loaded once; `plane_loops` writes its loops, with the
vectors of `row_vectors`. `planes` computes the result and the gradient of the image,
`filter_gradient` the gradient of the filter, both with the functions of `module`. `solver` has the
search space.
"""
