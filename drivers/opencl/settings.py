"""Environment variables of the OpenCL driver."""

from neurald.drivers.settings import Settings


def process_settings() -> Settings:
    """Returns the settings of this process."""
    return Settings("NEURALD_OPENCL_")
