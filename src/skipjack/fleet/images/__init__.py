"""Container images: made, handed to the machines of a fleet, and workers run in them."""
