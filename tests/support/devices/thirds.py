"""Two drivers with a third of all operations each, so that nearly every model is split.

The CPU device runs the last third.
"""

import zlib

from support.devices.misbehaving import SampleDevice

from neurald.hal.model.operation_type import OperationType


def _share(operation: OperationType) -> int:
    # `support.operations.variants.inputs_as_internal` puts ADD before the tested operation, which
    # should be on another device if possible.
    return 0 if operation is OperationType.ADD else zlib.crc32(operation.name.encode()) % 3


def create_first() -> SampleDevice:
    """Creates the device for the first third, twice as fast as the CPU."""
    return SampleDevice("first", performance=0.5, supports=lambda operation: _share(operation) == 0)


def create_second() -> SampleDevice:
    """Creates the device for the second third, four times as fast as the CPU."""
    return SampleDevice("second", performance=0.25, supports=lambda operation: _share(operation) == 1)
