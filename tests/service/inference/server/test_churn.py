"""Loading and unloading again and again, under load, leaves nothing behind."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.inference import zoo
from support.inference.serving import Serving
from support.waiting import wait_until

triton = pytest.importorskip("tritonclient.grpc", reason="the group test is not installed")
from tritonclient.utils import InferenceServerException  # noqa: E402 - optional

X = np.array([[1, 2, 3, 4]], np.float32)
#: How much the front end may grow in an hour, by the slope of ten minutes, which scatters by some
#: MiB.
_MAX_SLOPE_BYTES = 16 << 20


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Serving]:
    zoo.write_plain(tmp_path, "same", zoo.reshaping())
    zoo.write_plain(tmp_path, "other", zoo.dense())
    with Serving(tmp_path, http="") as found:
        yield found.wait_ready()


def infer(client: Any, name: str) -> Any:
    tensor = triton.InferInput("x", [1, 4], "FP32")
    tensor.set_data_from_numpy(X)
    return client.infer(name, [tensor])


def resources(pid: int) -> tuple[int, int, int]:
    """Returns the descriptors, threads and resident bytes of a process."""
    place = Path(f"/proc/{pid}")
    status = dict(line.split(":", 1) for line in (place / "status").read_text().splitlines())
    return (
        len(list((place / "fd").iterdir())),
        int(status["Threads"]),
        int(status["VmRSS"].split()[0]) * 1024,
    )


def churn(service: Serving, seconds: float, rounds: int) -> tuple[list[tuple[float, int]], list[str]]:
    """Loads and unloads a model while others are asked.

    Returns:
        The resident bytes of the front end with their times, after a warm-up; and what failed.
    """
    failures: list[str] = []
    done = threading.Event()

    def load() -> None:
        with triton.InferenceServerClient(service.grpc) as client:
            while not done.is_set():
                try:
                    assert infer(client, "same").as_numpy("y").tolist() == [1, 2, 3, 4]
                except (InferenceServerException, AssertionError) as error:
                    failures.append(str(error))
                # 70 % of what the service can do, or less.
                time.sleep(0.002)

    threads = [threading.Thread(target=load) for _ in range(2)]
    for thread in threads:
        thread.start()
    sizes: list[tuple[float, int]] = []
    before: tuple[int, int, int] | None = None
    pid = service.process.pid
    end = time.monotonic() + seconds
    count = 0
    try:
        with triton.InferenceServerClient(service.grpc) as client:
            while count < rounds or time.monotonic() < end:
                client.unload_model("other")
                with pytest.raises(InferenceServerException):
                    infer(client, "other")
                client.load_model("other")
                infer(client, "other")
                count += 1
                if count == rounds // 2:
                    before = resources(pid)
                if before is not None:
                    sizes.append((time.monotonic(), resources(pid)[2]))
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert before is not None
    # Workers that were replaced are gone, but for the one that waits for the next model.
    wait_until(lambda: resources(pid)[0] <= before[0] + 2)
    wait_until(lambda: resources(pid)[1] <= before[1] + 1)
    return sizes, failures


@pytest.mark.full
def test_churn_leaves_nothing(service: Serving) -> None:
    sizes, failures = churn(service, 0.0, 12)
    assert not failures
    # A few rounds show a leak of megabytes each; the long run shows smaller ones.
    assert sizes[-1][1] - sizes[0][1] < 8 << 20
    # A busy machine may take the last worker for a hanging one for a moment.
    wait_until(lambda: [each.name for each in service.status.models if each.is_ready] == ["same", "other"])


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_churn_for_minutes(service: Serving) -> None:
    sizes, failures = churn(service, 600.0, 100)
    assert not failures
    times, values = np.array(sizes).T
    slope = np.polyfit(times - times[0], values, 1)[0] * 3600
    assert slope < _MAX_SLOPE_BYTES, f"{slope / 2**20:.2f} MiB/h in {len(sizes)} rounds"
