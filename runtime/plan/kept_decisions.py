"""Remembers whether plans were faster than single devices, for all processes of the user.

A decision belongs to a model's operations and shapes, to the devices and drivers of the plan and of
its rivals, to the number of threads, to the machine, and to how many of its cores the process may
use: if any of them changes, there is none. They are in one small file, from which the oldest ones
are dropped. Losing them costs another test and nothing else.
"""

import hashlib
import os
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct

from neurald.hal.cache.key import graphs_digest
from neurald.hal.decoding import from_json
from neurald.hal.device import Device
from neurald.hal.errors import Error
from neurald.hal.model.model import Model
from neurald.hal.process.fork import forkable_lock
from neurald.hal.records import DECODE_ERRORS
from neurald.hal.wording import printable
from neurald.runtime.costs.store import identity
from neurald.runtime.devices import kept_file

_FILE: Final = "decisions.json"
_MAX_DECISIONS: Final = 512
_MAX_TEXT: Final = 512


class Decision(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The name of the device that runs a model faster than a plan, empty for none; the reason."""

    winner: str
    reason: str


class _Content(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: str
    decisions: dict[str, Decision]


_FORMAT: Final = "decisions 2"
_lock = forkable_lock()


def decision_key(
    model: Model, steps: Sequence[tuple[Device, Sequence[int]]], rivals: Sequence[Device], threads: int | None
) -> str:
    """Returns what a decision belongs to; empty if a driver fails.

    Args:
        model: the whole model.
        steps: the steps of the plan: devices and operations.
        rivals: devices that can run the whole model.
        threads: the threads of an execution.
    """
    try:
        cores = len(os.sched_getaffinity(0))
        parts = [graphs_digest(model), f"{threads} threads on {cores} cores", *map(identity, rivals)]
        parts += [f"{identity(device)} {list(operations)}" for device, operations in steps]
    except Error:
        return ""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def load_decision(key: str) -> Decision | None:
    """Returns the decision of a key, if there is one."""
    return _load().get(key)


def keep_decision(key: str, decision: Decision) -> None:
    """Remembers a decision, if a file can be written."""
    with _lock:
        known = _load()
        known.pop(key, None)
        # Reasons quote errors of drivers.
        known[key] = Decision(winner=decision.winner, reason=printable(decision.reason[:_MAX_TEXT]))
        while len(known) > _MAX_DECISIONS:
            del known[next(iter(known))]
        # Larger files are not written, so that nothing would ever be remembered again.
        while len(content := _encoded(known)) > kept_file.MAX_FILE_BYTES:
            for oldest in list(known)[: 1 + len(known) // 16]:
                del known[oldest]
        kept_file.write(_FILE, content)


def _encoded(known: dict[str, Decision]) -> bytes:
    return msgspec.json.encode(_Content(format=_FORMAT, decisions=known))


def _load() -> dict[str, Decision]:
    for data in kept_file.contents(_FILE):
        try:
            content = from_json(data, _Content)
        except (ValueError, *DECODE_ERRORS):
            continue
        if content.format == _FORMAT and all(
            each.reason.isprintable() for each in content.decisions.values()
        ):
            return content.decisions
    return {}
