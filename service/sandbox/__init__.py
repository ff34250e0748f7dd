"""What a driver process may not do: it runs code of vendors on models of strangers."""
