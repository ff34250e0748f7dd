"""The reference device."""

import time

import numpy as np
import pytest
from support.models.small import add_model

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.compiling.contract import compiles_apart
from neurald.hal.device import (
    Artifact,
    BufferDescription,
    BufferRole,
    CacheFilesNeeded,
    PrepareOptions,
    Verdict,
)
from neurald.hal.errors import BadData, BadState, MissedDeadlinePersistent
from neurald.hal.execution.reference_model import ReferenceModel
from neurald.hal.execution.reference_support import have_references, supported_by_references
from neurald.hal.model.extension import Extension, ExtensionOperandType, ExtensionOperation
from neurald.hal.model.model import Model, ModelContent, Outline
from neurald.hal.records import replace
from neurald.hal.registry import create_device

_EXTENSION = Extension(
    name="com.vendor.references",
    operand_types=(ExtensionOperandType(code=4, name="TENSOR", is_tensor=True, element_bytes=4),),
    operations=(ExtensionOperation(code=3, name="ADD"),),
)


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


def _unread(has_references: bool) -> Model:
    """Returns a model of which only the outline can be read."""
    complete = add_model()

    def read() -> ModelContent:
        raise BadState("its graphs are lost")

    outline = replace(Outline.of(complete.main), has_references=has_references)
    return Model.read_later(
        outline, read, state=(), input_names=("a", "b"), output_names=("c",), signatures={}
    )


def test_what_is_known_to_have_references_is_supported_without_its_graphs() -> None:
    assert ReferenceDevice().supported_operations(_unread(True)) == (Verdict(ok=True),)
    with pytest.raises(BadState, match="its graphs are lost"):
        ReferenceDevice().supported_operations(_unread(False))


def test_other_extensions_are_looked_for_in_the_graphs() -> None:
    device = ReferenceDevice()
    device.extensions = ()  # type: ignore[assignment]
    with pytest.raises(BadState, match="its graphs are lost"):
        supported_by_references(_unread(True), device)


def test_which_models_have_references() -> None:
    main = add_model().main
    assert have_references(Model(main=main))
    operation = replace(main.operations[0], type=_EXTENSION.operation_type(3))
    assert not have_references(Model(main=replace(main, operations=(operation,))))
    operands = tuple([replace(each, type=_EXTENSION.operand_type(4)) for each in main.operands])
    assert not have_references(Model(main=replace(main, operands=operands)))


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
