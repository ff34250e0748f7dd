"""Trials of plans against the CPU device."""
