"""Lowers TFLite's elementwise operations."""
