"""The reference device."""

import time

import numpy as np
import pytest
from support.models.small import add_model

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.compiling.contract import compiles_apart
from neurald.hal.device import Artifact, BufferDescription, BufferRole, CacheFilesNeeded, PrepareOptions
from neurald.hal.errors import BadData, MissedDeadlinePersistent
from neurald.hal.execution.reference_model import ReferenceModel
from neurald.hal.registry import create_device


def test_the_registry_creates_the_device() -> None:
    device = create_device("reference")
    assert isinstance(device, ReferenceDevice)
    assert device.name == "reference"


def test_nothing_is_compiled_or_cached() -> None:
    device = ReferenceDevice()
    prepared = device.prepare_model(add_model(), PrepareOptions())
    assert isinstance(prepared, ReferenceModel)
    assert prepared.compiled_operations == frozenset()
    assert prepared.artifact() is None
    assert device.cache_files_needed == CacheFilesNeeded()
    assert not compiles_apart(device)
    with pytest.raises(BadData, match="reference does not compile"):
        device.prepare_model_from_cache(Artifact(), PrepareOptions())


def test_an_addition() -> None:
    compilation = nd.CompilationBuilder(add_model((2, 3)), [ReferenceDevice()]).finish()
    ones = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(compilation.run(ones, ones)[0], 2 * ones)


def test_the_version_does_not_contain_the_compiler() -> None:
    assert "llvmlite" in CpuDevice().version
    assert "llvmlite" not in ReferenceDevice().version
    assert "sources" not in ReferenceDevice().version


def test_it_supports_the_operations_of_the_cpu_device() -> None:
    model = add_model()
    assert ReferenceDevice().supported_operations(model) == CpuDevice().supported_operations(model)


def test_a_deadline_in_the_past() -> None:
    with pytest.raises(MissedDeadlinePersistent):
        ReferenceDevice().prepare_model(add_model(), PrepareOptions(deadline_s=time.monotonic() - 1))


def test_memory_for_models_of_this_device_only() -> None:
    device = ReferenceDevice()
    own = BufferRole(prepared_model=device.prepare_model(add_model((2, 3)), PrepareOptions()), index=0)
    assert device.allocate(BufferDescription(dimensions=(2, 3), input_roles=(own,))).size >= 24
    foreign = BufferRole(prepared_model=CpuDevice().prepare_model(add_model(), PrepareOptions()), index=0)
    with pytest.raises(BadData, match="did not prepare"):
        device.allocate(BufferDescription(dimensions=(2, 3), input_roles=(foreign,)))
