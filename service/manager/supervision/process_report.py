"""Reports of a driver's process about itself, which may contain anything."""

from collections.abc import Mapping

from neurald.hal.decoding import from_json
from neurald.hal.records import DECODE_ERRORS
from neurald.service.daemon import notifications
from neurald.service.manager.state import DriverMetrics


def reported_number(values: Mapping[str, str], name: str, otherwise: int) -> int:
    """Returns a number that a process has sent, or another one if it has sent none."""
    text = values.get(name, "")
    return int(text[:9]) if text.isascii() and text.isdecimal() else otherwise


def reported_metrics(values: Mapping[str, str], before: DriverMetrics | None) -> DriverMetrics | None:
    """Returns what a process has done, or what was known before if it has sent nothing valid."""
    try:
        return from_json(values.get(notifications.METRICS, ""), DriverMetrics)
    except DECODE_ERRORS:
        return before
