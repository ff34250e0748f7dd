"""Serves, or calls, an identity by Triton; runs in a Python with `nvidia-pytriton`.

    python triton_peer.py serve ELEMENTS GRPC_PORT HTTP_PORT METRICS_PORT
    python triton_peer.py call ELEMENTS GRPC_PORT

A server prints a line when it serves, and ends with standard input. A client runs as many times as
each line of its standard input says, by the way that the line names, and prints the microseconds of
each run.
"""

import os
import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

import numpy as np

_TOKEN = "benchmark"  # noqa: S105 - the server only lives as long as the benchmark
_HEADERS = {"triton-grpc-protocol-triton-access-token": _TOKEN}
_MODEL = "identity"
#: Another one's of this name would be cut and removed by this program.
_REGION = f"neurald-benchmark-{os.getpid()}"


def _own_output() -> TextIO:
    """Returns the standard output for this program alone; Triton's lines go nowhere.

    The server is a process of its own, whose lines may come into the middle of one of this program.
    """
    own = os.fdopen(os.dup(1), "w")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    return own


_ANSWERS = _own_output()


def serve(elements: int, grpc: int, http: int, metrics: int) -> None:
    """Serves the identity of this many floats until standard input ends."""
    from pytriton.decorators import batch  # noqa: F401 - it must be imported first
    from pytriton.model_config import ModelConfig, Tensor
    from pytriton.triton import Triton, TritonConfig, TritonSecurityConfig

    def infer(requests: Any) -> Any:
        return [{"y": request["x"]} for request in requests]

    config = TritonConfig(grpc_port=grpc, http_port=http, metrics_port=metrics, log_verbose=0)
    with Triton(config=config, security_config=TritonSecurityConfig(access_token=_TOKEN)) as triton:
        triton.bind(
            model_name=_MODEL,
            infer_func=infer,
            inputs=[Tensor(name="x", dtype=np.float32, shape=(elements,))],
            outputs=[Tensor(name="y", dtype=np.float32, shape=(elements,))],
            config=ModelConfig(batching=False),
        )
        triton.run()
        print("ready", file=_ANSWERS, flush=True)  # the parent waits for it
        sys.stdin.read()


def call(elements: int, port: int) -> None:
    """Runs the identity as the lines of standard input say."""
    import tritonclient.grpc as triton
    from tritonclient.utils import shared_memory

    client = triton.InferenceServerClient(f"127.0.0.1:{port}")
    values = np.random.default_rng(0).random(elements, np.float32)
    size = values.nbytes
    region = shared_memory.create_shared_memory_region(_REGION, f"/{_REGION}", 2 * size)
    try:
        shared_memory.set_shared_memory_region(region, [values])
        client.register_system_shared_memory(_REGION, f"/{_REGION}", 2 * size, headers=_HEADERS)
        source, target = triton.InferInput("x", [elements], "FP32"), triton.InferRequestedOutput("y")
        source.set_shared_memory(_REGION, size)
        target.set_shared_memory(_REGION, size, offset=size)
        inline = triton.InferInput("x", [elements], "FP32")

        def by_bytes() -> None:
            inline.set_data_from_numpy(values)
            client.infer(_MODEL, [inline], outputs=[triton.InferRequestedOutput("y")]).as_numpy("y")

        ways: dict[str, Callable[[], object]] = {
            "shared_memory": lambda: client.infer(_MODEL, [source], outputs=[target]),
            "bytes": by_bytes,
        }
        ways["shared_memory"]()
        result = shared_memory.get_contents_as_numpy(region, np.float32, [elements], offset=size)
        if not np.array_equal(result, values):
            raise RuntimeError("Triton returned wrong values")
        print("ready", file=_ANSWERS, flush=True)
        for line in sys.stdin:
            way, count = line.split()
            times = []
            for _ in range(int(count)):
                start = time.perf_counter_ns()
                ways[way]()
                times.append((time.perf_counter_ns() - start) / 1000)
            print(*times, file=_ANSWERS, flush=True)
    finally:
        shared_memory.destroy_shared_memory_region(region)


if __name__ == "__main__":
    {"serve": serve, "call": call}[sys.argv[1]](*map(int, sys.argv[2:]))
