"""Limits of what a daemon lends to its clients: memory, descriptors, calls, and the interpreter."""
