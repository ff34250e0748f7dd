"""The execution service: serves models over the V2 inference protocol."""
