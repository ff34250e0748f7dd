"""The flat graph into which control flow is inlined: its operands, lengths and added operations."""
