"""Driver for OpenCL devices: GPUs, accelerators, and CPUs with an OpenCL runtime."""
