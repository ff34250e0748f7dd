"""Converts values of the HAL to protobuf messages and back. No other code touches messages."""
