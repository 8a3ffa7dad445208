"""Winograd convolutions of 3x3 filters.

Tiles of the image and the filter are transformed, the transformed planes are multiplied, and the
products are transformed back. `transforms` has the linear maps, `plan` the sizes of all arrays and
the cost estimate. `images` and `tiles` write the stages that read and write images, `filters`
those of filters, `stage_code` the products and what all stages share; `solver` puts the stages
together.
"""
