"""Stands for the package `ai_edge_litert` where this folder is in `sys.path`."""

from neurald.runtime.litert.program import stand_in

stand_in(__name__)
