"""What `neurald benchmark` measures, compares and draws."""
