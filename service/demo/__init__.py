"""The demo: a small classifier of handwritten digits, with digits held out from training."""
