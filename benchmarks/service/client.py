"""Calls servers of the V2 protocol with tritonclient; runs in a Python that has it.

    python client.py ELEMENTS MODEL GRPC HTTP

Prints a line when it is ready. Each line of its standard input names a way and a number of runs,
and is answered by the microseconds of each run; the way `throughput` by the number of clients, and
the runs per second of that many threads.
"""

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tritonclient.grpc as grpc
import tritonclient.http as http
from tritonclient.utils import shared_memory

_THROUGHPUT_S = 2.0


class Ways:
    """The ways to run the identity on this many floats.

    Args:
        elements: how many.
        model: its name.
        grpc_address, http_address: of the server.
    """

    def __init__(self, elements: int, model: str, grpc_address: str, http_address: str) -> None:
        self._model = model
        self._address = grpc_address
        self._shape = [1, elements] if model == "same" else [elements]
        self._values = np.random.default_rng(0).random(elements, np.float32).reshape(self._shape)
        size = self._values.nbytes
        self._grpc = grpc.InferenceServerClient(grpc_address)
        self._http = http.InferenceServerClient(http_address)
        # Another one's of this name would be cut and removed by this program.
        self._name = f"neurald-benchmark-{os.getpid()}"
        self._region = shared_memory.create_shared_memory_region(self._name, f"/{self._name}", 2 * size)
        shared_memory.set_shared_memory_region(self._region, [self._values])
        self._grpc.register_system_shared_memory(self._name, f"/{self._name}", 2 * size)
        self.by_name: dict[str, Callable[[], Any]] = {
            "live": self._grpc.is_server_live,
            "grpc": lambda: self.raw(self._grpc),
            "grpc_shm": self._in_region(grpc, self._grpc, size),
            "http": self._over_http,
            "http_shm": self._in_region(http, self._http, size),
        }

    def close(self) -> None:
        """Removes the shared memory."""
        shared_memory.destroy_shared_memory_region(self._region)

    def raw(self, client: Any) -> Any:
        """Runs the model with tensors in messages over gRPC."""
        tensor = grpc.InferInput("x", self._shape, "FP32")
        tensor.set_data_from_numpy(self._values)
        return client.infer(self._model, [tensor]).as_numpy("y")

    def _in_region(self, module: Any, client: Any, size: int) -> Callable[[], Any]:
        source = module.InferInput("x", self._shape, "FP32")
        source.set_shared_memory(self._name, size)
        target = module.InferRequestedOutput("y")
        target.set_shared_memory(self._name, size, offset=size)
        return lambda: client.infer(self._model, [source], outputs=[target])

    def _over_http(self) -> Any:
        tensor = http.InferInput("x", self._shape, "FP32")
        tensor.set_data_from_numpy(self._values)
        return self._http.infer(self._model, [tensor]).as_numpy("y")

    def throughput(self, clients: int) -> float:
        """Returns the runs per second of this many threads over gRPC."""
        end = time.monotonic() + _THROUGHPUT_S
        counts = [0] * clients

        def run(number: int) -> None:
            with grpc.InferenceServerClient(self._address) as client:
                while time.monotonic() < end:
                    self.raw(client)
                    counts[number] += 1

        threads = [threading.Thread(target=run, args=(number,)) for number in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(counts) / _THROUGHPUT_S


def main() -> None:
    """Obeys the lines of standard input."""
    elements, model, grpc_address, http_address = sys.argv[1:]
    ways = Ways(int(elements), model, grpc_address, http_address)
    try:
        print("ready", flush=True)  # noqa: T201 - the parent waits for it
        for line in sys.stdin:
            name, count = line.split()
            if name == "throughput":
                print(ways.throughput(int(count)), flush=True)  # noqa: T201
                continue
            run, times = ways.by_name[name], []
            for _ in range(int(count)):
                start = time.perf_counter_ns()
                run()
                times.append((time.perf_counter_ns() - start) / 1000)
            print(*times, flush=True)  # noqa: T201
    finally:
        ways.close()


if __name__ == "__main__":
    main()
