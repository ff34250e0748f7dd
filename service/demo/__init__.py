"""The demo: a small classifier of handwritten digits, and digits held out from its training."""
