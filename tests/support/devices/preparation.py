"""Preparations through a cache."""

from pathlib import Path

from support.devices.caching import CachingDevice, added, model_adding

import neurald as nd
from neurald.hal.device import PrepareOptions
from neurald.hal.model.model import Model
from neurald.runtime.plan.prepared_step import PreparationReport
from neurald.runtime.plan.preparer import Caching, Preparer


def prepare(
    directory: Path | None,
    device: nd.Device | None = None,
    model: Model | None = None,
    *,
    token: bytes = b"",
    options: PrepareOptions | None = None,
    value: float = 3,
) -> PreparationReport:
    """Prepares a model, checks its results, and returns the report."""
    caching = None if directory is None else Caching(directory=directory, token=token)
    prepared = Preparer(options or PrepareOptions(), caching).prepare(
        device or CachingDevice(), model or model_adding(value)
    )
    assert added(prepared.prepared_model) == value
    return prepared.report


def entries(directory: Path) -> list[Path]:
    return sorted(path for path in directory.glob("*") if len(path.name) == 64)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)
