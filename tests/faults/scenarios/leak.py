"""Detects leaks.

Clients come, call, and leave or are killed in rounds, and resources must not grow.
"""

import threading
import time
from typing import Any

from faults.field import Field
from faults.proc import Held
from faults.scenarios.client import Client
from faults.scenarios.victim import WAYS

from neurald.hal.rpc.client.device import RemoteDevice, connect

#: Warm-up rounds, in which thread pools and allocators grow to their final size.
WARM_ROUNDS = 3
_CALLS = 12
#: Time limit for releasing resources.
_SETTLE_S = 30.0
_SLACK_BYTES = 8 << 20
#: Tolerance for descriptors and threads that gRPC uses temporarily. Each leaked client costs at
#: least one.
_SLACK = 8
#: Threads of a daemon that serve calls. They are created on demand, and stay.
_POOL_THREADS = 64
#: Permitted growth of memory per round: none is expected, but allocators grow in steps.
_ROUND_BYTES = 64 << 10


def rounds(field: Field, count: int, clients: int) -> tuple[dict[str, Any], list[str]]:
    """Runs `count` rounds after a warm-up; returns figures and failures."""
    daemon = field.daemons[0]
    device = connect(daemon.address)
    wrong: list[str] = []
    try:
        for _ in range(WARM_ROUNDS):
            wrong += _round(field, clients)
        wrong += _until_idle(device)
        daemon_base, base = Held.by(daemon.process.pid), Held.here()
        for _ in range(count):
            wrong += _round(field, clients)
        wrong += _until_idle(device)
        growth = _SLACK_BYTES + count * _ROUND_BYTES
        daemon_now, now, more = _settled(daemon.process.pid, daemon_base, base, growth)
    finally:
        device.close()
    wrong += more
    figures = {
        "rounds": count,
        "clients": count * (clients + len(WAYS)),
        "daemon": _figures(daemon_base, daemon_now),
        "clients' process": _figures(base, now),
    }
    return figures, wrong


def _settled(process: int, daemon_base: Held, base: Held, growth: int) -> tuple[Held, Held, list[str]]:
    """Returns the resources of the daemon and of this process, and any excess, after a settling
    time.

    A session ends before gRPC closes its connections, and helper processes of compilations are
    reaped later still.
    """
    end = time.monotonic() + _SETTLE_S
    while True:
        daemon_now, now = Held.by(process), Held.here()
        more = [
            f"the daemon holds {line}"
            for line in daemon_now.more_than(
                daemon_base, descriptors=_SLACK, threads=_POOL_THREADS, rss_bytes=growth
            )
        ]
        more += [
            f"the clients' process holds {line}"
            for line in now.more_than(base, descriptors=_SLACK, threads=_SLACK, rss_bytes=growth)
        ]
        if not more or time.monotonic() > end:
            return daemon_now, now, more
        time.sleep(0.1)


def _figures(base: Held, now: Held) -> dict[str, Any]:
    return {
        "descriptors": [base.descriptors, now.descriptors],
        "threads": [base.threads, now.threads],
        "memory growth in bytes": now.rss_bytes - base.rss_bytes,
    }


def _round(field: Field, clients: int) -> list[str]:
    victim = field.start("scenarios.victim", field.address, *WAYS)
    group = [Client(field.address, number + 1) for number in range(clients)]
    threads = [threading.Thread(target=_visit, args=(client,)) for client in group]
    for thread in threads:
        thread.start()
    victim.wait_ready()
    field.pause(0.0, 0.05)
    victim.kill()
    for thread in threads:
        thread.join()
    return [line for client in group for line in client.wrong]


def _visit(client: Client) -> None:
    for _ in range(_CALLS):
        client.call()
    client.close()


def _until_idle(device: RemoteDevice) -> list[str]:
    """Waits until the daemon holds nothing for clients; returns the remainder."""
    end = time.monotonic() + _SETTLE_S
    while True:
        status = device.status()
        # This process has this session, and that of `neurald.connect`; executions have ended.
        if status.sessions <= 2 and not status.prepared_models and not status.memories and status.calls <= 1:
            return []
        if time.monotonic() > end:
            return [f"the daemon still holds {status}"]
        time.sleep(0.05)
