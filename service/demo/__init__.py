"""The demo: a small classifier of handwritten digits, and digits that it has never seen."""
