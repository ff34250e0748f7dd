"""Steps with control flow: blocks of kernels, loops and branches."""
