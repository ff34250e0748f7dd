"""Describes why a process ended: the buffer that was missed, by how much, and in which call."""

import signal
from dataclasses import dataclass

from neurald.hal.model.types import counted
from neurald.service.conformance.guard.fault_handler import Fault
from neurald.service.conformance.guard.message import Region, Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """End of a process before it had answered.

    stage: the call in which it ended; None if there was none yet.
    """

    stage: Stage | None
    fault: Fault | None
    status: int
    was_late: bool = False
    said: str = ""


def described(end: End, limit_s: float) -> str:
    """Describes what went wrong; `limit_s` is the time limit of a call."""
    where = "" if end.stage is None else f"buffers {end.stage.placement}: {end.stage.call}: "
    return where + _what(end, limit_s)


def _what(end: End, limit_s: float) -> str:
    if end.was_late:
        return f"it did not return within {limit_s:g} s"
    said = f": {end.said}" if end.said else ""
    if end.fault is None:
        how = _signal_name(-end.status) if end.status < 0 else f"exit status {end.status}"
        return f"its process ended with {how}{said}"
    name = _signal_name(end.fault.signal)
    if end.fault.address is None:
        return f"its process ended with {name} at an unknown address"
    regions = () if end.stage is None else end.stage.regions
    missed = missed_buffer(end.fault, regions)
    return missed or f"its process ended with {name} at {end.fault.address:#x}, which is near no buffer"


def missed_buffer(fault: Fault, regions: tuple[Region, ...]) -> str:
    """Describes which buffer an access missed and by how much; "" if it was near no buffer.

    The bytes next to a buffer are 1 byte before its start and 1 byte behind its end.
    """
    verb = {True: "wrote", False: "read", None: "read or wrote"}[fault.is_write]
    address = fault.address
    for region in regions:
        if address is None or not region.first <= address < region.end:
            continue
        if address < region.start:
            distance, side = region.start - address, "before the start of"
        else:
            distance, side = address - (region.start + region.size) + 1, "behind the end of"
        return f"it {verb} {counted(distance, 'byte')} {side} {region.name}, which has {counted(region.size, 'byte')}"
    return ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
