"""Devices that have an OpenCL driver: graphics cards, accelerators, and CPUs through an OpenCL runtime."""
