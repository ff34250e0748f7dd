"""The reference device: every operation runs on its NumPy reference, and nothing is compiled."""
