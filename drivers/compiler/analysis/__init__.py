"""Analyses of graphs and expressions: ranges, verification and interpretation."""
