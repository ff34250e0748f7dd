"""The shared parts of the commands: device selection, measurements, and output."""
