"""Triton's `perf_analyzer`, a client in C++ that reads the configuration and statistics of models.

Its measurements are short, and it is content with any: what counts is that no request fails.
"""

import contextlib
import fcntl
import os
import subprocess
from collections.abc import Iterator

import pytest
from support.inference import zoo
from support.inference.serving import Serving
from support.inference.tools import perf_analyzer

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("models")
    zoo.write_plain(folder, "text", zoo.reshaping("STRING"))
    zoo.write_model(folder, "versions", zoo.addition(), zoo.addition(), config="version_policy { all {} }")
    zoo.write_model(folder, "batched", zoo.open_addition(), config="max_batch_size: 8 dynamic_batching { }")
    with Serving(folder, allow_client_shm=True) as service:
        yield service.wait_ready()


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return perf_analyzer(tmp_path_factory.mktemp("perf_analyzer"))


@pytest.mark.parametrize("protocol", ["grpc", "http"])
@pytest.mark.parametrize("memory", ["none", "system"])
@pytest.mark.parametrize("options", ["versions", "batched -b 4", "text --string-length 40"])
def test_inputs_and_outputs(
    serving: Serving, command: list[str], protocol: str, memory: str, options: str
) -> None:
    for concurrency in (1, 4, 8):
        measure(
            serving,
            command,
            protocol,
            f"{options} --shared-memory {memory} --concurrency-range {concurrency}",
        )


@pytest.mark.parametrize(
    ("protocol", "options"),
    [
        ("grpc", "versions --streaming --concurrency-range 4"),
        ("grpc", "batched --streaming --shared-memory system"),
        ("grpc", "versions -x 1 --async --concurrency-range 4"),
        ("http", "versions -x 1 --async --concurrency-range 4"),
        ("grpc", "versions --grpc-compression-algorithm gzip"),
        ("grpc", "versions --request-rate-range 50"),
        ("http", "versions --request-rate-range 50 --request-distribution poisson"),
        ("grpc", "versions --trace-level TIMESTAMPS --trace-rate 10 --trace-count 2"),
        ("http", "versions --trace-level TIMESTAMPS --trace-rate 10 --trace-count 2"),
        ("http", "text --string-length 9 --input-tensor-format json --output-tensor-format json"),
    ],
)
def test_other_options(serving: Serving, command: list[str], protocol: str, options: str) -> None:
    measure(serving, command, protocol, options)


def measure(serving: Serving, command: list[str], protocol: str, options: str) -> None:
    address = serving.grpc if protocol == "grpc" else serving.http
    # It measures in windows of this many milliseconds, until three in turn saw requests and differ
    # by this many percent at most. A count of requests would not do: it forgets those that end
    # before it begins to count, sends no others for them, and then waits for the count forever.
    measured = ["-u", address, "-i", protocol, "--measurement-interval", "250", "-s", "999"]
    with only_user_of_shared_memory():
        done = subprocess.run(
            [*command, "-m", *options.split(), *measured],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-1000:]
    assert "throughput: " in done.stdout


@contextlib.contextmanager
def only_user_of_shared_memory() -> Iterator[None]:
    """Waits for concurrent tests, since every `perf_analyzer` names its regions alike."""
    folder = os.open("/dev/shm", os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)
