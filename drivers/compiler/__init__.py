"""Kernel compiler that the drivers share: graphs, lowerings, passes and fusion."""
