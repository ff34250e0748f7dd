"""Models that are compiled in parts, between which operations run on references."""
