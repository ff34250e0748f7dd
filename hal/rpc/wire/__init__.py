"""Values of the HAL as protobuf messages and back. Nothing else touches messages."""
