"""Two drivers that share the operations with the CPU device, a third each: nearly every model has to be split over them."""

import zlib

from support.devices.misbehaving import SampleDevice

from neurald.hal.model.operation_type import OperationType


def _share(operation: OperationType) -> int:
    # ADD stands before all others in `support.operations.variants.inputs_as_internal`: nobody else is to be where it is, if possible.
    return 0 if operation is OperationType.ADD else zlib.crc32(operation.name.encode()) % 3


def create_first() -> SampleDevice:
    """The driver of the first third, twice as fast as the CPU."""
    return SampleDevice("first", performance=0.5, supports=lambda operation: _share(operation) == 0)


def create_second() -> SampleDevice:
    """The driver of the second third, four times as fast."""
    return SampleDevice("second", performance=0.25, supports=lambda operation: _share(operation) == 1)
