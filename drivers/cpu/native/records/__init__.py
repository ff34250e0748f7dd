"""The memory in which native code finds a step, its calls, and how they are divided."""
