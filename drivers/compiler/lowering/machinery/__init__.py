"""Shared parts of the lowerings: their types and table, image layouts and reduced axes."""
