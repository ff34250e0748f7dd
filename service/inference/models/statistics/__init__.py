"""Counts, times and latencies of a model."""
