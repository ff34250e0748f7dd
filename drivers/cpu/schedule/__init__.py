"""In which order, how many at once and in which parts a kernel computes its elements."""
