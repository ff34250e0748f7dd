"""Several layers as one kernel."""
