"""Attack with command line files that claim gigabytes, or never end."""

import itertools
import os
import resource
import struct
import zipfile
from pathlib import Path

from faults.attacks.attack import MIB, Attack
from support.daemon.command_line import invoke

_MODEL = Path(__file__).resolve().parents[4] / "service" / "demo" / "digits.tflite"
_ZERO = Path("/dev/zero")
#: A file of zeros compresses well.
_BOMB_BYTES = 1 << 30
_MOST_BYTES = 256 * MIB


class HostileFiles(Attack):
    """Pipes, devices, and arrays with wrong headers, as inputs, labels, images and models."""

    name = "hostile files"

    def start(self) -> None:
        folder = self.target.folder
        self._pipe = folder / "pipe"
        os.mkfifo(self._pipe)
        files = [folder / "header.npz", folder / "shape.npz"]
        size = self.scaled(_BOMB_BYTES)
        _archive(files[0], b"\x93NUMPY\x02\x00" + struct.pack("<I", 0xFFFF_FFF0), size)
        header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (1099511627776,)}"
        header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
        _archive(files[1], b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header, size)
        cases: list[tuple[str, ...]] = [(str(_MODEL), "--inputs", str(file)) for file in files]
        for file in (self._pipe, _ZERO):
            cases += [(str(_MODEL), option, str(file)) for option in ("--inputs", "--labels", "--image")]
            cases.append((str(file),))
        self._cases = itertools.cycle(cases)
        self._count = len(cases)

    def step(self) -> None:
        before = _peak_bytes()
        for case in itertools.islice(self._cases, self._count):
            result = invoke("run", *case)
            text = result.stderr.strip()
            self.outcomes["refused" if result.exit_code == 1 else f"exit code {result.exit_code}"] += 1
            self.expect(result.exit_code == 1, f"{case}: exit code {result.exit_code}")
            self.expect("unexpected" not in text and "Traceback" not in text, f"{case}: {text}")
            self.expect(_peak_bytes() - before < _MOST_BYTES, f"{case}: took {_peak_bytes() - before} bytes")

    def stop(self) -> None:
        self._pipe.unlink()


def _archive(path: Path, head: bytes, zeros: int) -> None:
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("input_0.npy", "w", force_zip64=True) as member,
    ):
        member.write(head)
        for _ in range(zeros // MIB):
            member.write(bytes(MIB))


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
