"""Generated cases: models of a single operation, their inputs, and what must come of them."""
