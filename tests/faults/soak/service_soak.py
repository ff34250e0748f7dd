"""Long-running load on the execution service, while a model is loaded and unloaded again and again.

Its front end and the worker of the model that is asked must not grow, see `faults.soak.soak`.
Clients use every way in: messages of gRPC and HTTP, a stream, system shared memory, and a lane.
They rest while memory is measured: messages that are under way, of which there are more or fewer,
take several times as much as the growth that must not be.
"""

import contextlib
import json
import queue
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import tritonclient.grpc as grpc_client
from faults.proc import Held, shared_memory_entries
from faults.soak.soak import FLAT, LOAD, MOST_PER_HOUR, Growth, left, sampled, show
from support.inference import zoo
from support.inference.serving import Serving
from support.inference.ways import Way, ways
from tritonclient.utils import InferenceServerException

import neurald as nd

_ELEMENTS = 3 * 224 * 224
#: How long a model stays unloaded or loaded, in seconds.
_CHURN_S = 0.1
_WARM_S = 3.0
_X = np.arange(_ELEMENTS, dtype=np.float32).reshape(1, -1)


class _Load:
    """Clients that each keep the service busy for a share of their time."""

    def __init__(self, ways: Mapping[str, Way]) -> None:
        self.outcomes: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.done = threading.Event()
        self._lock = threading.Lock()
        #: Protects and signals how many calls are under way, and whether more may begin.
        self._turn = threading.Condition()
        self._calls = 0
        self._rests = False
        self._threads = [threading.Thread(target=self._use, args=each) for each in ways.items()]
        for thread in self._threads:
            thread.start()

    def _use(self, name: str, way: Way) -> None:
        while not self.done.is_set():
            with way() as call:
                # Connections are made again, too.
                for _ in range(200):
                    if self.done.is_set():
                        break
                    with self.under_way():
                        began = time.monotonic()
                        try:
                            is_right = np.array_equal(call(_X).reshape(-1), _X.reshape(-1))
                            self.note(name, "" if is_right else f"{name}: a wrong result")
                        except (InferenceServerException, nd.Error, queue.Empty) as error:
                            self.note(name, f"{name}: {error}")
                    time.sleep((time.monotonic() - began) * (1 - LOAD) / LOAD)

    @contextlib.contextmanager
    def under_way(self) -> Iterator[None]:
        """Makes the block a call, which begins when clients do not rest."""
        with self._turn:
            self._turn.wait_for(lambda: not self._rests)
            self._calls += 1
        try:
            yield
        finally:
            with self._turn:
                self._calls -= 1
                self._turn.notify_all()

    @contextlib.contextmanager
    def at_rest(self) -> Iterator[None]:
        """Makes clients rest during the block, which begins when no call is under way."""
        with self._turn:
            self._rests = True
            self._turn.wait_for(lambda: not self._calls)
        try:
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
    with grpc_client.InferenceServerClient(address) as client:
        tensor = grpc_client.InferInput("x", [1, 4], "FP32")
        tensor.set_data_from_numpy(np.ones((1, 4), np.float32))
        while not load.done.is_set():
            try:
                client.unload_model("other")
                load.done.wait(_CHURN_S)
                with load.under_way():
                    client.load_model("other")
                    client.infer("other", [tensor])
                load.note("loaded")
            except InferenceServerException as error:
                load.note("loaded", f"load and unload: {error}")
            load.done.wait(_CHURN_S)


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
        with Serving(folder / "models", allow_client_shm=True, socket=socket) as service:
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
                samples = sampled({"front end": service.process.pid, "worker": worker}, seconds, load.at_rest)
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
        wrong += grown.faults(who, most_per_hour, flat)
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
