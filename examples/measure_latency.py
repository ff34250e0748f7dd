"""Compares ordinary calls, a reusable execution and a burst, in process and through a daemon."""

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import neurald as nd
import neurald.service.demo

DIGITS = Path(neurald.service.demo.__file__).with_name("digits.tflite")


def median_us(call: Callable[[], object], runs: int = 200) -> float:
    """Returns the median time of a call in microseconds, after a warm-up."""
    for _ in range(20):
        call()
    times = []
    for _ in range(runs):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return statistics.median(times) * 1e6


def measure(device: nd.Device) -> None:
    """Prints one line for a device."""
    compilation = nd.CompilationBuilder(nd.load_tflite(DIGITS), devices=[device]).finish()
    image = np.zeros((1, 8, 8, 1), np.uint8)
    scores = np.empty((1, 10), np.uint8)

    execution = nd.Execution(compilation, reusable=True)
    execution.set_input(0, image)
    execution.set_output(0, scores)
    with compilation.create_burst() as burst:
        times = [
            median_us(lambda: compilation.run(image)),
            median_us(execution.compute),
            median_us(lambda: execution.compute(burst=burst)),
        ]
    print(f"{device.name:30}" + "".join(f"{each:12.0f}" for each in times))


def main() -> None:
    """Starts a daemon for the CPU device, and compares it with the device of this process."""
    print(f"{'median in microseconds':30}{'run()':>12}{'reusable':>12}{'burst':>12}")
    measure(next(device for device in nd.devices() if device.type is nd.DeviceType.CPU))
    with tempfile.TemporaryDirectory() as folder:
        socket = Path(folder) / "cpu.sock"
        command = [sys.executable, "-m", "neurald", "driver", "cpu", "--listen", f"unix://{socket}"]
        daemon = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            while not socket.exists() and daemon.poll() is None:
                time.sleep(0.05)
            measure(nd.connect(f"unix://{socket}"))
        finally:
            daemon.terminate()
            daemon.wait()


if __name__ == "__main__":
    main()
