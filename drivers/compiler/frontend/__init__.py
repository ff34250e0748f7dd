"""Frontend: builds a compiler graph from a step model."""
