"""CPU device, which runs in the application's process and supports every operation."""
