"""Chooses the device of each operation and groups the operations into steps."""
