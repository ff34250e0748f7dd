"""Products of floats in register tiles: convolutions, matrix products and depthwise convolutions."""
