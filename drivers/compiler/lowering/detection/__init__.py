"""Lowers boxes, regions of interest and non-maximum suppression."""
