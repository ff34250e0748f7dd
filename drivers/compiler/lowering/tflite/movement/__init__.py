"""Lowerings of TFLite's forms: operations that move, repeat, pick or resample elements."""
