"""Matrix products of normalised rows, which read the rows as they are."""
