"""Convolutions as a blocked matrix product that reads images in place, without padding them.

`gather` describes which taps read which pixels; `tile` is the register tile. `pixels` (with
`pixel_tile`) computes the result and the gradient of the image; `filter_gradients` (with
`pixel_blocks`) computes the gradient of the filter. `space` and `estimate` order the configs,
`solver` adds the copies for images whose channels come first.
"""
