"""Intermediate representation: graphs of nodes, and expressions of single elements."""
