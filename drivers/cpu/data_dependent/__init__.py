"""Models in which lengths, or what code must know, follow from the data of an execution."""
