"""Explanations of a partitioning, as text, JSON and HTML."""
