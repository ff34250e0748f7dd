"""Describes what is in a model."""
