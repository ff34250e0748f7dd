"""Generated cases: models of a single operation, their inputs, and the expected results."""
