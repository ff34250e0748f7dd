"""The plan of a compilation: step models, arenas, and their preparation by devices."""
