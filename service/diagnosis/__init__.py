"""Finds faults of an installation, and their remedies."""
