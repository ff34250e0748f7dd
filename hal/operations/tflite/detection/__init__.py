"""TFLite's forms: boxes, regions of interest and suppression of overlapping boxes."""
