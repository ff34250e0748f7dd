"""Runs the subgraphs of a file, whose tensors are addressed by their numbers."""
