"""Records the work of calls of the library over time, in all processes that take part."""
