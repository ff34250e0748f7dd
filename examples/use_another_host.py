"""Uses a device of another host over mutual TLS, until its certificate is revoked.

The other host is this one here: the daemon listens at 127.0.0.1.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import neurald as nd
import neurald.service.demo
from neurald.service.certificates.authority import Authority

DEMO = Path(neurald.service.demo.__file__).parent


def main() -> None:
    """Classifies digits on the device of a daemon that admits holders of certificates."""
    data = np.load(DEMO / "digits.npz")
    images, labels = data["images"][:100], data["labels"][:100]
    with tempfile.TemporaryDirectory() as folder:
        # The same as: neurald cert init; neurald cert issue gpu --host 127.0.0.1; …
        authority = Authority(Path(folder) / "tls")
        authority.create("example")
        gpu, laptop = authority.issue("gpu", ["127.0.0.1"]), authority.issue("laptop")

        command = [sys.executable, "-m", "neurald", "driver", "cpu", "--listen", "127.0.0.1:0"]
        with subprocess.Popen([*command, "--tls", str(gpu)], stderr=subprocess.PIPE, text=True) as daemon:
            try:
                # The daemon says where it serves.
                address = next(iter(daemon.stderr or ())).split()[-1]
                remote = nd.connect(address, tls=laptop)
                if (link := remote.link()) is not None:
                    megabytes = link.bytes_per_s / 1e6
                    print(f"{remote.name} is {link.latency_s * 1e3:.2f} ms and {megabytes:.0f} MB/s away")

                builder = nd.CompilationBuilder(nd.load_tflite(DEMO / "digits.tflite"))
                builder.set_partitioning(nd.Partitioning(overrides=(nd.prefer(remote.name, range(9)),)))
                compilation = builder.finish()
                right = 0
                for number, (image, label) in enumerate(zip(images, labels, strict=True)):
                    if number == len(images) // 2:
                        authority.revoke("laptop")
                        while remote.is_alive:
                            time.sleep(0.05)
                        print("the certificate has been revoked")
                    (scores,) = compilation.run(image[None, :, :, None])
                    right += int(scores.argmax() == label)
                print(f"{right} of {len(labels)} digits are right, and no call has failed")
            finally:
                daemon.kill()


if __name__ == "__main__":
    main()
