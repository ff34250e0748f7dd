"""The demo: a small classifier of handwritten digits, and digits that were held out from training."""
