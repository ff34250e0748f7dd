"""Rings in shared memory, as the client uses them."""
