"""What is proved or computed about a graph without changing it."""
