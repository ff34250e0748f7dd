"""Binds recurrent cells."""
