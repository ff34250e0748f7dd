"""Memory pools, mapped files, and the planning of arenas."""
