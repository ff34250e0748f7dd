"""The package that `neurald new-driver` writes: a starter driver, its tests, and their CI."""
