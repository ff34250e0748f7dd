"""What the kernel compilers share: the graph of a step model, what its operations compute, transformations and fusion."""
