"""What jobs refer to: labels, devices and machines."""

__all__ = [
    "devices",
    "labels",
    "machines",
    "registrations",
]
