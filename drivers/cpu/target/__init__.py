"""Target machines, and a compiled step as data."""
