"""Templates of the package that `neurald new-driver` writes: a driver, its tests, and their CI."""
