"""How a run worker says which kernel it launches next: a number in a page its parent sees."""

import struct

ANNOUNCEMENT = struct.Struct("<q")
NOTHING = -1
"""No kernel is running."""
