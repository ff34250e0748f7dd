"""What operations, launches and transfers cost on each device: measured, kept and estimated."""
