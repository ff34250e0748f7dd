"""Kills and stops processes of an execution service while clients call in every way.

No answer may be wrong, and a client that repeats what the service did not answer must get an answer
to every call.
"""

import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from faults.proc import shared_memory_entries
from support.daemon.managed import Managed
from support.inference import zoo
from support.inference.insistent import InsistentClients, example
from support.inference.ways import CALL_S, Way, ways
from support.process.ports import free_port
from support.waiting import wait_until
from tritonclient.grpc import InferenceServerClient
from tritonclient.utils import InferenceServerException

from neurald.hal.process.activation import SERVICE_SOCKET
from neurald.service.manager.state import ServiceStatus

#: What happens to which process. A front end takes seconds to start, so that it is spared more
#: often.
_WORKER_FAULTS: Final = (signal.SIGKILL, signal.SIGSTOP, signal.SIGSEGV, signal.SIGBUS, signal.SIGTERM)
_FRONT_END_FAULTS: Final = (signal.SIGKILL, signal.SIGSEGV)
_FAULTS: Final = (
    *(("worker", fault) for fault in 2 * _WORKER_FAULTS),
    *(("front end", fault) for fault in _FRONT_END_FAULTS),
)
#: How many answers each client gets between two faults at most, and how long those are apart then.
_ANSWERS: Final = 10
_PAUSE_S: Final = 0.3
_LOOK_S: Final = 0.2


def service_status(managed: Managed) -> ServiceStatus:
    """Returns the status of the service that a manager supervises."""
    return managed.manager_status().service or ServiceStatus(process=None)


@contextlib.contextmanager
def served(folder: Path) -> Iterator[Managed]:
    """Serves a model, `same`, which returns its input, with two workers."""
    zoo.write_model(
        folder / "models", "same", zoo.reshaping("INT32"), config="instance_group [ { count: 2 } ]"
    )
    addresses = ("--grpc", f"127.0.0.1:{free_port()}", "--http", f"127.0.0.1:{free_port()}")
    options = ("--repository", str(folder / "models"), "--allow-client-shm")
    with Managed(folder, *addresses, *options) as managed:
        wait_until(lambda: service_status(managed).is_ready)
        yield managed


def ways_of(managed: Managed) -> dict[str, Way]:
    """Returns the ways to ask the service; see `ways`."""
    addresses = service_status(managed).addresses
    socket_path = managed.directory / SERVICE_SOCKET
    return ways(addresses["grpc"], addresses["http"], socket_path, "same", example())


@contextlib.contextmanager
def _reviving(managed: Managed) -> Iterator[None]:
    """Loads the model again, like an operator, when it is given up because it has died so often."""
    done = threading.Event()

    def revive() -> None:
        while not done.wait(_LOOK_S):
            status = service_status(managed)
            if any("times within" in model.reason for model in status.models):
                with (
                    contextlib.suppress(InferenceServerException),
                    InferenceServerClient(status.addresses["grpc"]) as client,
                ):
                    client.load_model("same", client_timeout=CALL_S)

    thread = threading.Thread(target=revive)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def strike(managed: Managed, kind: str, fault: signal.Signals, number: int = 0) -> None:
    """Sends a signal to a worker, or to the front end, as soon as both are ready.

    Args:
        managed: see `served`.
        kind: "worker" or "front end".
        fault: the signal.
        number: of the worker.
    """
    wait_until(lambda: service_status(managed).is_ready)
    status = service_status(managed)
    workers = status.models[0].processes
    process = status.process if kind == "front end" else workers[number % len(workers)]
    assert process is not None
    # Another fault may have ended it since.
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, fault)


def kills(seconds: float, seed: int) -> dict[str, Any]:
    """Plays faults for a time; returns a report with all failures.

    Args:
        seconds: the duration.
        seed: determines faults and inputs, but not the timing.
    """
    entries = shared_memory_entries()
    chance = random.Random(seed)
    played: Counter[str] = Counter()
    with (
        tempfile.TemporaryDirectory(prefix="nk") as folder,
        served(Path(folder)) as managed,
        _reviving(managed),
    ):
        clients = InsistentClients(ways_of(managed), seed)
        try:
            clients.wait_for_more(_ANSWERS)
            end_s = time.monotonic() + seconds
            while time.monotonic() < end_s and not clients.lost:
                kind, fault = chance.choice(_FAULTS)
                strike(managed, kind, fault, chance.randrange(2))
                played[f"{kind}: {fault.name}"] += 1
                # Often before the service is back for all, sometimes when it has long been.
                if chance.random() < 0.5:
                    clients.wait_for_more(chance.randrange(_ANSWERS))
                else:
                    time.sleep(chance.uniform(0, _PAUSE_S))
            clients.wait_for_more(_ANSWERS)
        finally:
            clients.stop()
    wrong = clients.wrong[:20] + clients.lost
    if shared_memory_entries() > entries:
        wrong.append(f"{shared_memory_entries()} entries of /dev/shm; there were {entries}")
    return {
        "seconds": seconds,
        "played": dict(sorted(played.items())),
        "answered": clients.answered,
        "repeated": clients.repeated,
        "wrong": wrong,
    }


def main(seconds: float, seed: int, report: Path | None) -> int:
    """Plays faults, and prints the report; returns 1 on failure."""
    result = kills(seconds, seed)
    text = json.dumps(result, indent=1) + "\n"
    if report is not None:
        report.write_text(text)
    sys.stdout.write(text)
    return 1 if result["wrong"] else 0
