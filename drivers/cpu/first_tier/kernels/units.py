"""The kernels of the first tier as units to compile."""

from neurald.drivers.cpu.first_tier.kernels.convolution.factors import factor_units
from neurald.drivers.cpu.first_tier.kernels.convolution.pooling import pooling_units
from neurald.drivers.cpu.first_tier.kernels.convolution.products import product_units
from neurald.drivers.cpu.first_tier.kernels.elementwise.byte_arithmetic import byte_arithmetic_units
from neurald.drivers.cpu.first_tier.kernels.elementwise.expressions import function_units
from neurald.drivers.cpu.first_tier.kernels.elementwise.lookup import lookup_units
from neurald.drivers.cpu.first_tier.kernels.elementwise.quantization import quantization_units
from neurald.drivers.cpu.first_tier.kernels.elementwise.short_arithmetic import short_arithmetic_units
from neurald.drivers.cpu.first_tier.kernels.movement.copies import movement_units
from neurald.drivers.cpu.first_tier.kernels.movement.resizing import resizing_units
from neurald.drivers.cpu.first_tier.kernels.movement.scattering import scattering_units
from neurald.drivers.cpu.first_tier.kernels.recurrent.lstm import lstm_units
from neurald.drivers.cpu.first_tier.kernels.recurrent.rnn import rnn_units
from neurald.drivers.cpu.first_tier.kernels.recurrent.svdf import svdf_units
from neurald.drivers.cpu.first_tier.kernels.reduction.buckets import bucket_units
from neurald.drivers.cpu.first_tier.kernels.reduction.byte_rows import byte_row_units
from neurald.drivers.cpu.first_tier.kernels.reduction.extremes import extreme_units
from neurald.drivers.cpu.first_tier.kernels.reduction.largest import largest_units
from neurald.drivers.cpu.first_tier.kernels.reduction.local_response import local_response_units
from neurald.drivers.cpu.first_tier.kernels.reduction.rows import row_units
from neurald.drivers.cpu.first_tier.kernels.reduction.scans import scan_units
from neurald.drivers.cpu.first_tier.kernels.reduction.spectral import spectral_units
from neurald.drivers.cpu.native.objects.unit_queue import Unit
from neurald.drivers.cpu.target.target import Target


def library_units(target: Target) -> list[Unit]:
    """Returns the units of all functions."""
    return [
        *product_units(target),
        *factor_units(target),
        *function_units(target),
        *lookup_units(target),
        *byte_arithmetic_units(target),
        *short_arithmetic_units(target),
        *quantization_units(target),
        *lstm_units(target),
        *rnn_units(target),
        *svdf_units(target),
        *row_units(target),
        *byte_row_units(target),
        *extreme_units(target),
        *bucket_units(target),
        *largest_units(target),
        *pooling_units(target),
        *resizing_units(target),
        *movement_units(target),
        *scattering_units(target),
        *scan_units(target),
        *local_response_units(target),
        *spectral_units(target),
    ]
