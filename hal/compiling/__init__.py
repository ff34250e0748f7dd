"""Compilation in processes of its own."""
