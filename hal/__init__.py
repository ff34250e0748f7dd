"""Shared by the runtime and drivers: models, operations, devices, memory, and the protocol."""
