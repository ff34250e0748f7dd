"""A device with compiled artifacts that counts its calls."""

import os
import struct
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from support.devices.fakes import FakePreparedModel, WithoutCacheAndBuffers
from support.models.addition import addition

from neurald.drivers.cpu.device import CpuDevice
from neurald.hal.device import (
    Artifact,
    CacheFilesNeeded,
    Capabilities,
    ExecuteOptions,
    ExecutionResult,
    KernelTime,
    PreparedModel,
    PrepareOptions,
    Verdict,
)
from neurald.hal.errors import BadData
from neurald.hal.execution.reference_model import ReferenceModel
from neurald.hal.memory.pool import HostMemory, Memory
from neurald.hal.model.model import Model
from neurald.hal.model.request import Request
from neurald.hal.model.types import DeviceType, FeatureLevel
from neurald.hal.rpc.wire.model import decode_model, encode_model
from neurald.hal.validation.model_rules import validate_model

#: Environment variable: the path of a file to which devices of this kind append a line for each
#: model that they compile or load from a cache.
LOG_VARIABLE = "NEURALD_TEST_CACHING_LOG"
_SIZE = struct.Struct("<Q")


class CachingPreparedModel(FakePreparedModel):
    """Runs the references on the CPU."""

    def __init__(self, model: Model, artifact: Artifact | None) -> None:
        self._inner = ReferenceModel(model)
        self._artifact = artifact

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        return self._inner.execute(request, options)

    def artifact(self) -> Artifact | None:
        return self._artifact

    def profile(self) -> Sequence[KernelTime]:
        return self._inner.profile()


class CachingDevice(WithoutCacheAndBuffers):
    """A device whose artifacts contain the graph (`model`), the pools (`data`) and empty files.

    Attributes:
        compiled, loaded: numbers of models that it has compiled, and that it has loaded.
        offered: artifacts that it was asked to load.
        on_artifact: changes an artifact before it is returned.
        on_load: called before an artifact is loaded.
    """

    type = DeviceType.ACCELERATOR
    feature_level = FeatureLevel.LEVEL_8
    extensions = ("neurald.tflite",)

    def __init__(self, name: str = "caching", version: str = "1", *, model: int = 1, data: int = 1) -> None:
        self.name = name
        self.version = version
        self.cache_files_needed = CacheFilesNeeded(model=model, data=data)
        self.compiled: list[Model] = []
        self.loaded: list[Model] = []
        self.offered: list[Artifact] = []
        self.compile_s = 0.0
        self.on_artifact: Callable[[Artifact], Artifact | None] = lambda artifact: artifact
        self.on_load: Callable[[], None] = lambda: None

    def capabilities(self) -> Capabilities:
        return CpuDevice().capabilities()

    def supported_operations(self, model: Model) -> Sequence[Verdict]:
        return CpuDevice().supported_operations(model)

    def prepare_model(self, model: Model, options: PrepareOptions) -> PreparedModel:
        self.compiled.append(model)
        _log("compiled")
        time.sleep(self.compile_s)
        artifact = self._write(model) if options.cache_key else None
        return CachingPreparedModel(model, None if artifact is None else self.on_artifact(artifact))

    def prepare_model_from_cache(self, artifact: Artifact, options: PrepareOptions) -> PreparedModel:
        self.offered.append(artifact)
        self.on_load()
        model = self._read(artifact)
        self.loaded.append(model)
        _log("loaded")
        return CachingPreparedModel(model, artifact)

    def _write(self, model: Model) -> Artifact:
        pools = b"".join(_SIZE.pack(pool.size) + bytes(pool.view()) for pool in model.pools)
        files: list[Memory] = [HostMemory(encode_model(model)), HostMemory(b"pools" + pools)]
        needed = self.cache_files_needed
        models = [files[0], *(HostMemory(b"model") for _ in range(needed.model - 1))]
        data = [files[1], *(HostMemory(b"data") for _ in range(needed.data - 1))]
        return Artifact(model=tuple(models), data=tuple(data))

    def _read(self, artifact: Artifact) -> Model:
        counts = len(artifact.model), len(artifact.data)
        if counts != (self.cache_files_needed.model, self.cache_files_needed.data):
            raise BadData(f"{counts} cache files")
        content = bytes(artifact.data[0].view())
        if not content.startswith(b"pools"):
            raise BadData("no pools")
        pools: list[Memory] = []
        offset = len(b"pools")
        while offset < len(content):
            (size,) = _SIZE.unpack_from(content, offset)
            pools.append(HostMemory(content[offset + _SIZE.size : offset + _SIZE.size + size]))
            offset += _SIZE.size + size
        model = decode_model(bytes(artifact.model[0].view()), pools)
        validate_model(model)
        return model


def _log(line: str) -> None:
    path = os.environ.get(LOG_VARIABLE)
    if path:
        with Path(path).open("a") as file:
            file.write(f"{line}\n")


def create() -> CachingDevice:
    """Creates the device; `support.devices.caching:create` names it as a driver."""
    return CachingDevice()


def create_slow() -> CachingDevice:
    """Creates a device that compiles slowly."""
    device = CachingDevice()
    device.compile_s = 0.5
    return device


def create_other() -> CachingDevice:
    """Creates a device with another version."""
    return CachingDevice(version="2")


def model_adding(value: float, size: int = 4) -> Model:
    """Creates a model that adds `value` to each of `size` numbers."""
    return addition(np.full(size, value, np.float32))


def added(prepared: PreparedModel, size: int = 4) -> float:
    """Returns the number that a prepared `model_adding` adds."""
    from support.models.addition import request

    source, result = np.zeros(size, np.float32), np.zeros(size, np.float32)
    assert prepared.execute(request(source, result), ExecuteOptions()).is_sufficient
    assert (result == result[0]).all()
    return float(result[0])
