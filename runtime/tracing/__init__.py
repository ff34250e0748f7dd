"""Records what calls of the library do, and when, in all processes that take part."""
