"""Object code: compiled, linked, loaded, and run on threads."""
