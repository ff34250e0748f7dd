"""What OpenCL offers here: platforms, devices, images, precision and errors."""
