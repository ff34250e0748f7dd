"""Traces of requests."""
