"""Memory of a process: garbage collection, the heap, and how much this process may use."""
