"""Describes why a process ended: in which call, and which buffer an access missed by how much."""

import signal
from dataclasses import dataclass

from neurald.hal.wording import counted
from neurald.service.conformance.guard.fault_handler import Fault
from neurald.service.conformance.guard.message import BufferRegion, Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEnd:
    """Describes how a process ended before it answered.

    Attributes:
        stage: the call in which the process ended; None if there was none yet.
        fault: the fault that ended it, if there was one.
        status: the exit status, negative for a signal.
        was_late: whether the time limit of the call had passed.
        last_line: the last line that it wrote to its standard error.
    """

    stage: Stage | None
    fault: Fault | None
    status: int
    was_late: bool = False
    last_line: str = ""


def describe_end(end: ProcessEnd, limit_s: float) -> str:
    """Returns a description of the end of a process.

    Args:
        end: how the process ended.
        limit_s: the time limit of a call.
    """
    where = "" if end.stage is None else f"buffers {end.stage.placement}: {end.stage.call}: "
    return where + _cause(end, limit_s)


def _cause(end: ProcessEnd, limit_s: float) -> str:
    if end.was_late:
        return f"the call did not return within {limit_s:g} s"
    suffix = f": {end.last_line}" if end.last_line else ""
    if end.fault is None:
        how = _signal_name(-end.status) if end.status < 0 else f"exit status {end.status}"
        return f"its process ended with {how}{suffix}"
    name = _signal_name(end.fault.signal)
    if end.fault.address is None:
        return f"its process ended with {name} at an unknown address"
    regions = () if end.stage is None else end.stage.regions
    missed = missed_buffer(end.fault, regions)
    return missed or f"its process ended with {name} at {end.fault.address:#x}, which is near no buffer"


def missed_buffer(fault: Fault, regions: tuple[BufferRegion, ...]) -> str:
    """Describes which buffer an access missed and by how much; "" if it was near no buffer.

    Args:
        fault: the access.
        regions: the buffers with their guard pages.
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
        size = counted(region.size, "byte")
        return f"it {verb} {counted(distance, 'byte')} {side} {region.name}, which has {size}"
    return ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
