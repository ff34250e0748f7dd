"""What runtime and drivers agree on: types, operations, validation, devices, memory, and the wire between them."""
