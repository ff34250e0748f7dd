"""Shared parts of TFLite's lowerings: interpolated function tables."""
