"""Relaxed FLOAT32 products as sums of products of bfloat16 parts, with tile registers."""
