"""A compiled model as a function: `nd.compile`."""
