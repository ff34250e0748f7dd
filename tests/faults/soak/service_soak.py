"""Long-running load on the execution service, while a model is loaded and unloaded again and again.

Its front end and the worker of the model that is asked must not grow, see `faults.soak.soak`.
Clients use every way in: messages of gRPC and HTTP, a stream, system shared memory, and a lane.
They leave while memory is measured: messages that are under way, and those of which connections
keep the memory, take several times as much as the growth that must not be. The front end reports
how much memory it uses, in which a leak of 1 MiB an hour shows within half an hour.
"""

import contextlib
import json
import os
import queue
import re
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import tritonclient.grpc as grpc_client
from faults.proc import Held, shared_memory_entries
from faults.soak.soak import EXACT_MEMORY, FLAT, LOAD, MOST_PER_HOUR, Growth, left, sampled, show
from support.inference import zoo
from support.inference.serving import Serving
from support.inference.ways import Way, ways
from tritonclient.utils import InferenceServerException

import neurald as nd

_FRONT_END = "front end"
_ELEMENTS = 3 * 224 * 224
#: How long a model stays unloaded or loaded, in seconds.
_CHURN_S = 0.1
_WARM_S = 3.0
#: How long the service may take to notice that clients have left.
_LEAVE_S = 0.3
#: The share of the permitted growth that the memory may show which the front end uses: a process
#: with a leak of that growth is as far above as one without is below.
_LIVE_SHARE = 0.5
_ANSWER_S = 60.0
_LIVE = re.compile(rb"^neurald_front_end_live_bytes (\d+)$", re.MULTILINE)
_X = np.arange(_ELEMENTS, dtype=np.float32).reshape(1, -1)


class _Load:
    """Clients that each keep the service busy for a share of their time."""

    def __init__(self, ways: Mapping[str, Way]) -> None:
        self.outcomes: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.done = threading.Event()
        self._lock = threading.Lock()
        #: Protects and signals how many clients are connected, and whether they must leave.
        self._turn = threading.Condition()
        self._connected = 0
        self._rests = False
        self._threads = [threading.Thread(target=self._use, args=each) for each in ways.items()]
        for thread in self._threads:
            thread.start()

    def _use(self, name: str, way: Way) -> None:
        while not self.done.is_set():
            with self.connected(), way() as call:
                # Connections are made again, too.
                for _ in range(200):
                    if self.done.is_set() or self._rests:
                        break
                    began = time.monotonic()
                    try:
                        is_right = np.array_equal(call(_X).reshape(-1), _X.reshape(-1))
                        self.note(name, "" if is_right else f"{name}: a wrong result")
                    except (InferenceServerException, nd.Error, queue.Empty) as error:
                        self.note(name, f"{name}: {error}")
                    time.sleep((time.monotonic() - began) * (1 - LOAD) / LOAD)

    @contextlib.contextmanager
    def connected(self) -> Iterator[None]:
        """Lets a client be there during the block, which begins when clients do not rest."""
        with self._turn:
            self._turn.wait_for(lambda: not self._rests)
            self._connected += 1
        try:
            yield
        finally:
            with self._turn:
                self._connected -= 1
                self._turn.notify_all()

    @contextlib.contextmanager
    def at_rest(self) -> Iterator[None]:
        """Makes clients leave during the block, which begins when the service has noticed."""
        try:
            with self._turn:
                self._rests = True
                self._turn.wait_for(lambda: not self._connected)
            time.sleep(_LEAVE_S)
            yield
        finally:
            with self._turn:
                self._rests = False
                self._turn.notify_all()

    def note(self, name: str, wrong: str = "") -> None:
        """Counts a call, or what was wrong with it."""
        with self._lock:
            self.outcomes[name] += 1
            if wrong:
                self.wrong.append(wrong)

    def end(self) -> None:
        """Ends the clients."""
        self.done.set()
        for thread in self._threads:
            thread.join(120)


def _churn(load: _Load, address: str) -> None:
    tensor = grpc_client.InferInput("x", [1, 4], "FP32")
    tensor.set_data_from_numpy(np.ones((1, 4), np.float32))
    while not load.done.is_set():
        with load.connected(), grpc_client.InferenceServerClient(address) as client:
            try:
                client.unload_model("other")
                load.done.wait(_CHURN_S)
                client.load_model("other")
                client.infer("other", [tensor])
                load.note("loaded")
            except InferenceServerException as error:
                load.note("loaded", f"load and unload: {error}")
        load.done.wait(_CHURN_S)


def _live_bytes(address: str) -> int:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=_ANSWER_S) as answer:
        found = _LIVE.search(answer.read())
    assert found is not None, "the front end does not report its memory"
    return int(found[1])


def soak_service(seconds: float, *, most_per_hour: float = MOST_PER_HOUR, flat: int = FLAT) -> dict[str, Any]:
    """Runs a service under load; returns a report with samples, growth and failures.

    Args:
        seconds: the duration.
        most_per_hour, flat: see `faults.soak.soak.soak`.
    """
    entries = shared_memory_entries()
    with tempfile.TemporaryDirectory(prefix="nk") as name:
        folder = Path(name)
        (folder / "models").mkdir()
        zoo.write_plain(folder / "models", "same", zoo.reshaping(count=_ELEMENTS))
        zoo.write_plain(folder / "models", "other", zoo.dense())
        socket = str(folder / "service.sock")
        with (
            mock.patch.dict(os.environ, EXACT_MEMORY),
            Serving(folder / "models", allow_client_shm=True, socket=socket) as service,
        ):
            service.wait_ready()
            all_ways = ways(service.grpc, service.http, Path(socket), "same", _X)
            load = _Load(all_ways)
            time.sleep(_WARM_S)  # each lane of the model gets its memory
            load.end()
            before = Held.by(service.process.pid)
            load = _Load(all_ways)
            churn = threading.Thread(target=_churn, args=(load, service.grpc))
            churn.start()
            try:
                (worker,) = service.model("same").processes
                samples = sampled(
                    {_FRONT_END: service.process.pid, "worker": worker},
                    seconds,
                    load.at_rest,
                    {_FRONT_END: partial(_live_bytes, service.http)},
                )
            finally:
                load.end()
                churn.join(120)
            wrong = load.wrong[:20]
            if service.process.poll() is not None:
                wrong.append(f"the service ended with {service.process.returncode}")
            elif service.model("same").processes != (worker,):
                wrong.append("the worker has ended")
            else:
                wrong += left(service.process.pid, before)
    growth = {who: Growth.in_samples(each) for who, each in samples.items()}
    for who, grown in growth.items():
        wrong += grown.faults(who, most_per_hour * (_LIVE_SHARE if who == _FRONT_END else 1), flat)
    if shared_memory_entries() > entries:
        wrong.append(f"{shared_memory_entries()} entries of /dev/shm; there were {entries}")
    return {
        "seconds": seconds,
        "outcomes": dict(sorted(load.outcomes.items())),
        "growth": {who: asdict(each) for who, each in growth.items()},
        "wrong": wrong,
        "samples": {who: [asdict(sample) for sample in each] for who, each in samples.items()},
    }


def main(minutes: float, report: Path | None) -> int:
    """Runs the soak test of the service and prints the results; returns 1 on failure or growth."""
    result = soak_service(minutes * 60)
    if report is not None:
        report.write_text(json.dumps(result, indent=1) + "\n")
    return show(result)
