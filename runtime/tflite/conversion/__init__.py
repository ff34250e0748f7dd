"""Converts files to models."""
