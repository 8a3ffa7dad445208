"""Temperature, throttling and power of the devices that a sweep runs on."""
