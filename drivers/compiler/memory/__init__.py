"""Assigns the values of a graph to buffers."""
