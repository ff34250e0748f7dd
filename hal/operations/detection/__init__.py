"""Boxes, regions of interest and suppression of boxes that overlap."""
