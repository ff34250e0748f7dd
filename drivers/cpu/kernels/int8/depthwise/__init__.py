"""Quantised depthwise convolutions, which multiply several rows of a window in one step."""
