"""Lists a driver's device before its process exists, and uses it, which starts the process.

Applications need none of the first and the last part: they use the drivers that are installed, and
what was started ends by itself.
"""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import neurald as nd
import neurald.service.demo

DEMO = Path(neurald.service.demo.__file__).parent


def manager() -> int | None:
    """Returns the id of the process of the service manager; None if none runs."""
    command = [sys.executable, "-m", "neurald", "status", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return int(json.loads(done.stdout)["process"]) if done.returncode == 0 else None


def stop(process: int | None) -> None:
    """Stops the service manager and its drivers, and waits for their end."""
    if process is not None:
        descriptor = os.pidfd_open(process)
        os.kill(process, signal.SIGTERM)
        select.select([descriptor], [], [], 30)
        os.close(descriptor)


def main() -> None:
    """Uses a device whose driver nobody has started."""
    # A sample driver represents that of an accelerator, in directories of this example.
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "neurald.toml"
        file.write_text('[drivers.accelerator]\ndriver = "sample-all"\n')
        os.environ |= {
            "XDG_RUNTIME_DIR": folder,
            "XDG_CACHE_HOME": folder,
            "NEURALD_CONFIG": str(file),
            "NEURALD_AUTOSTART": "1",
        }
        try:
            print("measured once:", ", ".join(device.name for device in nd.devices()))
            use()
        finally:
            stop(manager())


def use() -> None:
    """Classifies a digit."""
    image = np.load(DEMO / "digits.npz")["images"][0][None, :, :, None]
    builder = nd.CompilationBuilder(nd.load_tflite(DEMO / "digits.tflite"))
    accelerator = next(device for device in nd.devices() if device.name.startswith("sample-all@"))
    builder.set_partitioning(nd.Partitioning(overrides=(nd.prefer(accelerator.name, range(9)),)))
    compilation = builder.finish()
    print("placed on", ", ".join(step.device.name for step in compilation.plan.steps))
    (scores,) = compilation.run(image)
    print("the digit is", int(scores.argmax()))


if __name__ == "__main__":
    main()
