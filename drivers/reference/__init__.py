"""The reference device, which runs every operation on its NumPy reference."""
