"""Commands that start, watch and configure the service manager."""
