"""TFLite's forms: boxes, regions of interest and suppression of boxes that overlap."""
