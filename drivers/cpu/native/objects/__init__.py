"""Compiles, stores, links and loads object code."""
