"""Which of several kernels is used: candidates built and measured in other processes."""
