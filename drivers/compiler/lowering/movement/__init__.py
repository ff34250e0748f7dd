"""Lowerings: operations that move, repeat, pick or resample elements."""
