"""What code is generated for, and the shape of a compiled step as data."""
