"""Lowers operations that move, repeat, select or resample elements."""
