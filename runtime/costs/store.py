"""Keeps the costs of devices in small files, one for each machine, device and driver version.

A file that is damaged, or of another version of neurald, counts as absent. Costs that were refined
by real runs are written at most every 30 seconds, and when the process ends.
"""

import atexit
import math
import os
import time
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from neurald.hal.decoding import from_json
from neurald.hal.device import Device
from neurald.hal.digests import hex_digest_of
from neurald.hal.errors import BadData, Error
from neurald.hal.process.fork import forkable_lock
from neurald.hal.records import DECODE_ERRORS
from neurald.runtime.costs.table import Average, CostBook, CostTable, DeviceLink
from neurald.runtime.costs.work import OperationKind
from neurald.runtime.devices import kept_file
from neurald.runtime.devices.driver_faults import convert_driver_faults

_FORMAT: Final = "costs 1"
_PAUSE_S: Final = 30.0
_CPU_INFO: Final = Path("/proc/cpuinfo")
_MACHINE_ID: Final = Path("/etc/machine-id")


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rates of one kind, by band."""

    operation: str
    operand: str
    bands: dict[int, Average]


class _Content(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A `CostTable` as JSON, which has no infinity: None instead."""

    format: str
    identity: str
    launch: Average | None
    step: Average | None = None
    link: tuple[float, float | None, float | None, bool] | None
    rates: list[_Entry]


_lock = forkable_lock()
_books: dict[str, CostBook] = {}
_written_s = -math.inf


@cache
def machine() -> str:
    """Returns what identifies this machine: processor, number of cores, and id if it has one."""
    model = ""
    try:
        with _CPU_INFO.open(encoding="utf-8", errors="replace") as lines:
            model = next(
                (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), ""
            )
    except OSError:
        pass
    try:
        number = _MACHINE_ID.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        number = ""
    return f"{model}, {os.cpu_count()} cores, {number}"


def identity(device: Device) -> str:
    """Returns what a device's costs belong to: the machine, the device, and its driver's version.

    Raises:
        Error: the driver fails.
    """
    with convert_driver_faults(device.name):
        return f"{machine()}\n{device.name}\n{device.version}"


def costs_of(device: Device) -> CostBook:
    """Returns the costs of a device; they are empty and not kept if its driver fails."""
    try:
        name = identity(device)
    except Error:
        return CostBook(CostTable())
    with _lock:
        book = _books.get(name)
        if book is None:
            book = _books[name] = CostBook(_load(name) or CostTable())
        return book


def export_costs(device: Device) -> bytes:
    """Returns the costs of a device in JSON, for another machine of the same kind."""
    return msgspec.json.encode(_encoded("", costs_of(device).table))


def seed_costs(device: Device, version: str, content: bytes) -> None:
    """Takes over the costs from another machine for a device of which none are known here.

    Args:
        device: the device of the same name.
        version: the version of the device that was measured; costs of another version are ignored.
        content: see `export_costs`; anything else is ignored.
    """
    try:
        table = _table(from_json(content, _Content))
        table.check()
        name = identity(device)
        with convert_driver_faults(device.name):
            is_same = device.version == version
    except (Error, ValueError, *DECODE_ERRORS):
        return
    if not is_same:
        return
    with _lock:
        book = _books.get(name)
        if book is None:
            book = _books[name] = CostBook(_load(name) or CostTable())
        if book.table == CostTable():
            _books[name] = CostBook(table)


def save(*, at_once: bool = False) -> None:
    """Writes the costs that have changed, if the last time was long ago."""
    global _written_s
    with _lock:
        now_s = time.monotonic()
        if not at_once and now_s < _written_s + _PAUSE_S:
            return
        _written_s = now_s
        changed = [(name, book) for name, book in _books.items() if book.is_changed]
        for _, book in changed:
            book.is_changed = False
    for name, book in changed:
        kept_file.write(_file_name(name), msgspec.json.encode(_encoded(name, book.table)))


def forget() -> None:
    """Drops the costs in memory, so that they are read again."""
    with _lock:
        _books.clear()


def _file_name(name: str) -> str:
    return f"costs-{hex_digest_of(name.encode())[:32]}.json"


def _encoded(name: str, table: CostTable) -> _Content:
    def finite(figure: float) -> float | None:
        return figure if math.isfinite(figure) else None

    link = table.link
    return _Content(
        format=_FORMAT,
        identity=name,
        launch=table.launch,
        step=table.step,
        link=None
        if link is None
        else (
            link.latency_s,
            finite(link.input_bytes_per_s),
            finite(link.output_bytes_per_s),
            link.shares_memory,
        ),
        rates=[
            _Entry(operation=kind.operation, operand=kind.operand, bands=dict(bands))
            for kind, bands in table.rates.items()
        ],
    )


def _load(name: str) -> CostTable | None:
    for data in kept_file.contents(_file_name(name)):
        try:
            content = from_json(data, _Content)
            if content.format != _FORMAT or content.identity != name:
                continue
            table = _table(content)
            table.check()
        except (BadData, ValueError, *DECODE_ERRORS):
            continue
        return table
    return None


def _table(content: _Content) -> CostTable:
    link = None
    if content.link is not None:
        latency_s, into, out, shares = content.link
        link = DeviceLink(
            latency_s=latency_s,
            input_bytes_per_s=math.inf if into is None else into,
            output_bytes_per_s=math.inf if out is None else out,
            shares_memory=shares,
        )
    return CostTable(
        launch=content.launch,
        step=content.step,
        link=link,
        rates={
            OperationKind(operation=each.operation, operand=each.operand): each.bands
            for each in content.rates
        },
    )


def _save_at_exit() -> None:
    save(at_once=True)


atexit.register(_save_at_exit)
