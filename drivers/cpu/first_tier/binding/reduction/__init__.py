"""Binds operations on whole rows: reductions, searches, sums and transforms."""
