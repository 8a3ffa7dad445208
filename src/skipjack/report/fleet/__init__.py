"""What people see of the fleet."""
