"""Compiles, links, loads and runs object code."""
