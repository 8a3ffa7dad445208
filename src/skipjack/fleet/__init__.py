"""The fleet: problems become jobs, are built anywhere and measured where the device is."""
