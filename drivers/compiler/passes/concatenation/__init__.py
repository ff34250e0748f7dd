"""Passes that let producers write directly into a concatenated result."""
