"""Measures the devices of drivers that have never run, and of those that could not start.

Measuring one starts its driver. An application that asks for the list of devices waits for that,
once. Compilations do not wait: the first one of a process leaves it to a thread that begins when
the compilation has probably ended.
"""

import time
from collections.abc import Sequence
from functools import partial
from typing import Final

from neurald.hal.errors import Error
from neurald.hal.process.fork import forkable_lock, grpc_obstacle
from neurald.hal.process.threads.checked_thread import CheckedTimer
from neurald.runtime.devices.daemons import DaemonConnection, connection_to, run_concurrently
from neurald.runtime.devices.installed import drivers_on_demand
from neurald.runtime.devices.measurements import RETRY_S

_DELAY_S: Final = 3.0
#: How often to look for devices that have to be measured.
_PAUSE_S: Final = 60.0
#: How long to wait for a driver that has never run.
_LIMIT_S: Final = 10.0

_lock = forkable_lock()
_next_s = -float("inf")


def on_demand_connections() -> tuple[DaemonConnection, ...]:
    """Returns the connections of the drivers that are started on demand.

    Raises:
        BadData: NEURALD_AUTOSTART is neither 0 nor 1.
    """
    found = tuple(connection_to(str(address)) for address in drivers_on_demand())
    for each in found:
        each.starts_manager = True
    return found


def measure_new(deadline_s: float | None = None, *, retries: bool = False) -> None:
    """Measures the devices about which nothing is known.

    Args:
        deadline_s: when to stop waiting, on the clock of `time.monotonic()`; None for some seconds.
        retries: whether those of drivers that could not start are measured, too; until one can, the
            reason of its last failure stays known.

    Raises:
        BadData: NEURALD_AUTOSTART is neither 0 nor 1.
    """
    found = on_demand_connections()
    wanted = [each for each in found if each.is_new and not each.is_backing_off]
    if retries:
        wanted += [each for each in found if each.failure]
    _measure(wanted, deadline_s)


def failures() -> dict[str, str]:
    """Returns the addresses of drivers that cannot start, with the reasons."""
    reasons = {each.address: each.failure for each in on_demand_connections()}
    return {address: reason for address, reason in reasons.items() if reason}


def unmeasured() -> tuple[str, ...]:
    """Returns the addresses of drivers that have never run, as far as is known."""
    return tuple(each.address for each in on_demand_connections() if each.is_new)


def measure_soon(connections: Sequence[DaemonConnection]) -> None:
    """Measures devices in the background, a moment later and rarely.

    Args:
        connections: the connections of drivers that start on demand, in any state.
    """
    global _next_s
    with _lock:
        now_s = time.monotonic()
        if now_s < _next_s:
            return
        wanted = [each for each in connections if each.is_new or each.is_to_be_retried]
        _next_s = now_s + (RETRY_S if wanted else _PAUSE_S)
    if not wanted:
        return
    timer = CheckedTimer(_DELAY_S, _measure, (wanted,))
    timer.daemon = True
    timer.start()


def _measure(connections: Sequence[DaemonConnection], deadline_s: float | None = None) -> None:
    """Connects to drivers, which keeps their measurements or why there are none."""
    if not connections or grpc_obstacle():
        return
    limit_s = time.monotonic() + _LIMIT_S if deadline_s is None else deadline_s
    answers = run_concurrently([partial(each.connect, limit_s) for each in connections], limit_s)
    if deadline_s is not None:
        return  # the application may just not have had enough time
    for each, answer in zip(connections, answers, strict=True):
        if answer is None or isinstance(answer, Error):
            # No later call waits for it, but it is found if it becomes ready.
            each.keep_failure(str(answer or "it was not ready in time"))
