"""Attack that overwrites and truncates cache files while processes use them."""

import itertools
from pathlib import Path

import numpy as np
from faults.attacks.attack import Attack
from support.models.hostile import weighted

import neurald as nd

#: Constants of 4 MiB, large enough to be mapped.
_SIZE = 1024
_SEEDS = 4
_TOKEN_BYTES = 32


class ChangedCacheFiles(Attack):
    """Overwrites and truncates all files of a cache used by compilations for the daemon and the
    local CPU.
    """

    name = "changed cache files"

    def start(self) -> None:
        self._devices = [nd.devices()[0], nd.connect(self.target.address)]
        self._numbers = itertools.count()
        self._values = np.linspace(-1, 1, _SIZE, dtype=np.float32)[np.newaxis]

    def step(self) -> None:
        number = next(self._numbers)
        device = self._devices[number % len(self._devices)]
        model = weighted(_SIZE, number % _SEEDS)
        cache = self.target.folder / f"cache {number}"
        cache.mkdir(mode=0o700)
        (right,) = self._compiled(model, device, cache).run(self._values)
        for harm in (_overwrite, _cut):
            compilation = self._compiled(model, device, cache)
            for path in _files(cache):
                harm(path)
                self.outcomes[f"files: {harm.__name__.strip('_')}"] += 1
            for _ in range(3):
                (result,) = compilation.run(self._values)
                self.expect(np.array_equal(result, right), f"{device.name}: a damaged cache changed a result")
            (result,) = self._compiled(model, device, cache).run(self._values)
            self.expect(np.array_equal(result, right), f"{device.name}: damage was not noticed")
        for path in _files(cache):
            path.unlink()

    def _compiled(self, model: nd.Model, device: nd.Device, cache: Path) -> nd.Compilation:
        builder = nd.CompilationBuilder(model, [device])
        builder.set_caching(cache, bytes(_TOKEN_BYTES))
        return builder.finish()

    def stop(self) -> None:
        self._devices.clear()


def _files(cache: Path) -> list[Path]:
    return [path for path in cache.rglob("*") if path.is_file()]


def _overwrite(path: Path) -> None:
    """Overwrites every byte in place, which is visible to mappings of the file."""
    with path.open("r+b") as file:
        file.write(b"\x7f" * path.stat().st_size)


def _cut(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(0)
