"""Fuzzes entries of the compilation cache, whose files other processes may change."""

import json
import os
import random
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from fuzz.target import Finding, kind_of, mutate_bytes
from support.models.addition import addition

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.sample.device import create_all
from neurald.hal.cache.secret import SECRET_VARIABLE

_KINDS = (
    "change",
    "change",
    "change",
    "cut",
    "grow",
    "empty",
    "remove",
    "exchange",
    "link",
    "loop",
    "device",
    "pipe",
    "sparse",
    "directory",
    "secret",
)
#: Size of a file with nothing behind its first bytes.
_SPARSE_BYTES = 1 << 42


class CacheTarget:
    """Implements `Target`. An input is a JSON list of changes to the files of an entry.

    Two models are cached for each of two devices; entries and files are exchanged between them.
    """

    limit_s = 60.0
    address_space = 4 << 30

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        root = Path(self._folder.name)
        self._good, self._cache = root / "good", root / "cache"
        self._secret = root / "state" / "secret"
        self._secret.parent.mkdir(mode=0o700)
        os.environ[SECRET_VARIABLE] = str(self._secret)
        # Large data files are verified in another way than small ones.
        constants = np.arange(6, dtype=np.float32).reshape(2, 3), np.full((100, 700), 7, np.float32)
        self._models = [(addition(each), each) for each in constants]
        self._devices: list[nd.Device] = [CpuDevice(), create_all()]
        self._good.mkdir(mode=0o700)
        self._compiled(self._good)
        self._files = sorted(
            str(path.relative_to(self._good)) for path in self._good.rglob("*") if path.is_file()
        )
        self._kept_secret = self._secret.read_bytes() if self._secret.exists() else b""

    def _compiled(self, folder: Path) -> list[str]:
        """Compiles all models for all devices, and checks their results.

        Returns what the cache did.
        """
        outcomes = []
        for device in self._devices:
            for number, (model, constant) in enumerate(self._models):
                builder = nd.CompilationBuilder(model, [device])
                builder.set_caching(folder, bytes([number]) * 32)
                try:
                    compilation = builder.finish()
                    (result,) = compilation.run(np.ones(constant.shape, np.float32))
                except nd.Error as error:
                    raise Finding(
                        f"compiling failed with a damaged cache: {error.code.name}: {error}"
                    ) from None
                if not np.array_equal(result, constant + 1):
                    raise Finding(f"a damaged cache changes the result of {device.name}")
                outcomes += [
                    f"{step.cache.value} {kind_of(step.reason)}" for step in compilation.report.steps
                ]
        return outcomes

    def seeds(self) -> Sequence[bytes]:
        """See `Target.seeds`."""
        return [b"[]"]

    def mutate(self, content: bytes, rng: random.Random) -> tuple[bytes, str]:
        """See `Target.mutate`: adds one or a few changes."""
        try:
            edits = list(json.loads(content))
        except ValueError:
            edits = []
        for _ in range(rng.choice((1, 1, 2, 3))):
            kind, file, other = rng.choice(_KINDS), rng.choice(self._files), rng.choice(self._files)
            edit: dict[str, Any] = {"kind": kind, "file": file}
            if kind == "change":
                edit["seed"] = rng.randrange(1 << 30)
            elif kind == "cut":
                edit["size"] = rng.randrange((self._good / file).stat().st_size + 1)
            elif kind in ("exchange", "link"):
                edit["other"] = other
            elif kind == "secret":
                edit["seed"] = rng.randrange(1 << 30)
            edits.append(edit)
        return json.dumps(edits[-6:]).encode(), "+".join(edit["kind"] for edit in edits[-6:])

    def run(self, content: bytes) -> str:
        """See `Target.run`."""
        shutil.rmtree(self._cache, ignore_errors=True)
        shutil.copytree(self._good, self._cache)
        try:
            for edit in json.loads(content):
                self._edit(edit)
            outcomes = self._compiled(self._cache)
            # Entries that were stored anew are valid.
            self._compiled(self._cache)
        finally:
            if self._kept_secret:
                self._secret.write_bytes(self._kept_secret)
                self._secret.chmod(0o600)
        kinds = "+".join(sorted({edit["kind"] for edit in json.loads(content)}))
        return f"{kinds}: {' '.join(outcomes)}"

    def _edit(self, edit: dict[str, Any]) -> None:
        path, kind = self._cache / edit["file"], edit["kind"]
        if kind == "secret":
            self._secret.write_bytes(mutate_bytes(self._kept_secret, random.Random(edit["seed"]))[0])
            return
        if (path.is_dir() and not path.is_symlink()) or not path.parent.is_dir():
            return
        path.unlink(missing_ok=True)
        good = (self._good / edit["file"]).read_bytes()
        if kind == "change":
            path.write_bytes(mutate_bytes(good, random.Random(edit["seed"]))[0])
        elif kind == "cut":
            path.write_bytes(good[: edit["size"]])
        elif kind == "grow":
            path.write_bytes(good + bytes(4096))
        elif kind == "empty":
            path.write_bytes(b"")
        elif kind == "exchange":
            path.write_bytes((self._good / edit["other"]).read_bytes())
        elif kind == "link":
            path.symlink_to(self._good / edit["other"])
        elif kind == "loop":
            path.symlink_to(path)
        elif kind == "device":
            path.symlink_to("/dev/zero")
        elif kind == "pipe":
            os.mkfifo(path)
        elif kind == "sparse":
            path.write_bytes(good[:100])
            os.truncate(path, _SPARSE_BYTES)
        elif kind == "directory":
            path.mkdir()

    def pieces(self, content: bytes) -> Sequence[Any]:
        """See `Target.pieces`."""
        edits: list[Any] = json.loads(content)
        return edits

    def joined(self, pieces: Sequence[Any], content: bytes) -> bytes:
        """See `Target.joined`."""
        return json.dumps(list(pieces)).encode()

    def close(self) -> None:
        """See `Target.close`."""
        self._folder.cleanup()


def create(models: Path | None) -> CacheTarget:
    """Creates the target."""
    del models
    return CacheTarget()
