"""Lengths of dimensions that follow from data, or are not known yet."""
