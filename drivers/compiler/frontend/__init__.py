"""From a step model to a graph."""
