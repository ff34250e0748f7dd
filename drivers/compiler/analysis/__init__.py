"""Analyses that leave a graph unchanged: ranges, verification and interpretation."""
