"""FLOAT32 convolutions, depthwise convolutions and matrix products."""
