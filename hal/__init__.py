"""What the runtime and drivers share: models, operations, devices, memory, and the protocol."""
