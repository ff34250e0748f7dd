"""Models with unspecified dimensions, and the variants that are compiled of them."""
