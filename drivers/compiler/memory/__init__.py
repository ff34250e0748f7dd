"""Where the values of a graph lie in memory."""
