"""Lowers elementwise operations."""
