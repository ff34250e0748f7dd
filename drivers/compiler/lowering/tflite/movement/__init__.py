"""Lowers TFLite's operations that move, repeat, select or resample elements."""
