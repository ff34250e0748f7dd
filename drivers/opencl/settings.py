"""The variables of the environment that decide what the OpenCL driver does."""

from neurald.drivers.settings import Settings


def process_settings() -> Settings:
    """Those of this process."""
    return Settings("NEURALD_OPENCL_")
