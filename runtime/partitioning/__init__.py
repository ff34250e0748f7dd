"""Chooses the device of each operation and groups operations into steps.

Policies, overrides, limits.
"""
