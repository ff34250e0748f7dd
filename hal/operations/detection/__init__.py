"""Boxes, regions of interest and suppression of overlapping boxes."""
