"""Kernel compiler shared by the drivers: graph, lowerings, transformations and fusion."""
