"""The package that `neurald new-driver` writes: a driver to begin with, its tests, and their CI."""
