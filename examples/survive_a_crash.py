"""Kills a driver process while an application uses it; the CPU device takes over."""

import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import neurald as nd
import neurald.service.demo

DEMO = Path(neurald.service.demo.__file__).parent


def main() -> None:
    """Classifies digits with a daemon that is killed half-way."""
    data = np.load(DEMO / "digits.npz")
    images, labels = data["images"][:100], data["labels"][:100]
    with tempfile.TemporaryDirectory() as folder:
        socket = Path(folder) / "cpu.sock"
        command = [sys.executable, "-m", "neurald", "driver", "cpu", "--listen", f"unix://{socket}"]
        daemon = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            while not socket.exists() and daemon.poll() is None:
                time.sleep(0.05)
            remote = nd.connect(f"unix://{socket}")

            # A preference instead of a list of devices allows the CPU device to take over.
            builder = nd.CompilationBuilder(nd.load_tflite(DEMO / "digits.tflite"))
            builder.set_partitioning(nd.Partitioning(overrides=(nd.prefer(remote.name, range(9)),)))
            compilation = builder.finish()
            print("placed on", ", ".join(step.device.name for step in compilation.plan.steps))

            right = 0
            for number, (image, label) in enumerate(zip(images, labels, strict=True)):
                if number == len(images) // 2:
                    daemon.send_signal(signal.SIGKILL)
                    daemon.wait()
                    print("the driver has been killed")
                (scores,) = compilation.run(image[None, :, :, None])
                right += int(scores.argmax() == label)
            print(f"{right} of {len(labels)} digits are right, and no call has failed")
        finally:
            daemon.kill()
            daemon.wait()


if __name__ == "__main__":
    main()
