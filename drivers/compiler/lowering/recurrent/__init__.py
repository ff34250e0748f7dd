"""Lowers recurrent cells and sequences."""
