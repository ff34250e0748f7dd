"""Describes the content of a model."""
