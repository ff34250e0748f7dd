"""Keeps converted models in the cache."""
