"""Graphs under conversion, which legalization rules read and extend."""
