"""Validation of models and requests, and shape inference."""
