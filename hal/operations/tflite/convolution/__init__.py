"""TFLite's forms: convolutions, poolings, fully connected layers and matrix products."""
