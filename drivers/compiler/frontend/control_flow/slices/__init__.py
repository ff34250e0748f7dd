"""Slices whose bounds or steps are data or counters."""
