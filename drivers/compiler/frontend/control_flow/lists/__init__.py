"""Lists that loops grow: their layout, and appends in place."""
