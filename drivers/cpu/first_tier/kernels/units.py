"""The kernels of the first tier as units to compile."""

from neurald.drivers.cpu.first_tier.kernels.elements import element_units
from neurald.drivers.cpu.first_tier.kernels.extremes import extreme_units
from neurald.drivers.cpu.first_tier.kernels.factors import factor_units
from neurald.drivers.cpu.first_tier.kernels.largest import largest_units
from neurald.drivers.cpu.first_tier.kernels.local_response import local_response_units
from neurald.drivers.cpu.first_tier.kernels.movement import movement_units
from neurald.drivers.cpu.first_tier.kernels.pooling import pooling_units
from neurald.drivers.cpu.first_tier.kernels.products import product_units
from neurald.drivers.cpu.first_tier.kernels.recurrent import recurrent_units
from neurald.drivers.cpu.first_tier.kernels.resizing import resizing_units
from neurald.drivers.cpu.first_tier.kernels.rows import row_units
from neurald.drivers.cpu.first_tier.kernels.scans import scan_units
from neurald.drivers.cpu.first_tier.kernels.scattering import scattering_units
from neurald.drivers.cpu.first_tier.kernels.spectral import spectral_units
from neurald.drivers.cpu.native.unit_queue import Unit
from neurald.drivers.cpu.target.target import Target


def library_units(target: Target) -> list[Unit]:
    """Returns the units of all functions."""
    return [
        *product_units(target),
        *factor_units(target),
        *element_units(target),
        *recurrent_units(target),
        *row_units(target),
        *extreme_units(target),
        *largest_units(target),
        *pooling_units(target),
        *resizing_units(target),
        *movement_units(target),
        *scattering_units(target),
        *scan_units(target),
        *local_response_units(target),
        *spectral_units(target),
    ]
