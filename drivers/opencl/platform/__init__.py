"""The OpenCL platform layer: platforms, devices, images, precision and errors."""
