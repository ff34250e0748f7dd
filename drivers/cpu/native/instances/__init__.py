"""Instances of a step, each of which holds the memory of one execution at a time."""
