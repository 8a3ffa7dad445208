"""Rankings and best configs, wherever they were found."""
