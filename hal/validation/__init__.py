"""Validates models and requests, and infers shapes."""
