"""Remembers which devices are slower now than they were when their costs were measured.

A step that notices that its device has become slow says so here; compilations made meanwhile
multiply the device's costs by the factor.
"""

from neurald.hal.process.fork import forkable_lock

_lock = forkable_lock()
_factors: dict[str, float] = {}


def set_slowness(device: str, factor: float) -> None:
    """Sets by how much a device is slower now; 1 if it is not."""
    with _lock:
        if factor > 1:
            _factors[device] = factor
        else:
            _factors.pop(device, None)


def slowness_of(device: str) -> float:
    """Returns by how much a device is slower now than it was when it was measured."""
    return _factors.get(device, 1.0)
