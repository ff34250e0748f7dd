"""Arithmetic that lowerings of TFLite's extension share: interpolated tables of functions."""
