"""Tiny models with large results take no memory before they run, and tell if there is none."""

import errno
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support.cpu.first_tier import prepared, results
from support.sweeps import sweep
from sweep.form import Form, constant, simple, tensor

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.cpu.first_tier import assembly
from neurald.drivers.cpu.first_tier.binding.binder import Binder
from neurald.drivers.cpu.first_tier.layout import tiles_of
from neurald.drivers.cpu.prepared_model import CpuPreparedModel
from neurald.drivers.cpu.target.target import TARGETS
from neurald.hal.device import PrepareOptions
from neurald.hal.execution.reference_model import ReferenceModel
from neurald.hal.operations.machinery import working_memory
from neurald.runtime.execution import array_computation

_LONG = 40_000
#: Bytes of code, tables and so on.
_MAX_ARTIFACT_BYTES = 100_000


def _forms() -> Iterator[Form]:
    """Yields operations on constants with results of at least `_LONG` elements."""
    for kind in ("i32", "f32"):
        ends = [constant(each, kind) for each in (0, _LONG, 1)]
        yield simple("RANGE", kind, ends, (tensor((_LONG,), kind),), "RangeOptions")
    row = constant([1.0, 2.0], "f32")
    yield simple("TILE", "", (row, constant([_LONG])), (tensor((2 * _LONG,)),))
    one = constant([3.0], "f32")
    yield simple("BROADCAST_TO", "", (one, constant([_LONG])), (tensor((_LONG,)),), "BroadcastToOptions")
    yield simple("FILL", "", (constant([_LONG, 2]), constant(2, "f32")), (tensor((_LONG, 2)),), "FillOptions")
    yield simple("PAD", "", (row, constant([[_LONG, 1]])), (tensor((_LONG + 3,)),), "PadOptions")
    numbers, ends = constant([0, 2, 0]), [constant(each, "f32") for each in (1, 0)]
    yield simple(
        "ONE_HOT", "", (numbers, constant(_LONG), *ends), (tensor((3, _LONG)),), "OneHotOptions", Axis=-1
    )
    values = constant([1.0, 2.0, 3.0], "f32")
    yield simple(
        "UNSORTED_SEGMENT_SUM",
        "",
        (values, numbers, constant(3 * _LONG)),
        (tensor((3 * _LONG,)),),
        "UnsortedSegmentSumOptions",
    )


FORMS = {f"{form.operator} {form.name}".strip(): form for form in _forms()}


@sweep("name", FORMS)
def test_results_of_constants_that_are_far_larger_are_not_kept(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(working_memory, "_MAX_KEPT_BYTES", 1000)
    model = nd.load_tflite(FORMS[name].case().content)
    expected = results(ReferenceModel(model), model, [])
    assert Binder(model, model.main, tiles_of(TARGETS["generic"])).folded == []
    np.testing.assert_array_equal(results(prepared(model), model, []), expected)
    compiled = CpuDevice().prepare_model(model, PrepareOptions(cache_key=bytes(32)))
    assert isinstance(compiled, CpuPreparedModel | ReferenceModel)
    if isinstance(compiled, CpuPreparedModel):
        artifact = compiled.artifact()
        assert artifact is not None
        assert sum(file.size for file in (*artifact.model, *artifact.data)) < _MAX_ARTIFACT_BYTES
    np.testing.assert_array_equal(results(compiled, model, []), expected)


def _sum_of(constant: Any) -> nd.Model:
    """Returns x + constant."""
    builder = nd.ModelBuilder()
    x, y, z = (builder.add_operand(nd.OperandType.TENSOR_FLOAT32, constant.shape) for _ in range(3))
    activation = builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(y, constant)
    builder.set_operand_value(activation, 0)
    builder.add_operation(nd.OperationType.ADD, [x, y, activation], [z])
    builder.identify_inputs_and_outputs([x], [z])
    return builder.finish()


def test_lacking_memory_for_constants_of_the_first_tier_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(size_bytes: int) -> memoryview:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(assembly, "anonymous_whole", fail)
    with pytest.raises(nd.OutOfMemory, match="bytes for constants: Cannot allocate memory"):
        prepared(_sum_of(np.arange(8, dtype=np.float32)))


def test_lacking_memory_for_outputs_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.arange(8, dtype=np.float32)
    compilation = nd.CompilationBuilder(_sum_of(array), [nd.devices()[0]]).finish()

    class WithoutMemory:
        def __getattr__(self, name: str) -> Any:
            return getattr(np, name)

        def empty(self, shape: Any, dtype: Any) -> None:
            raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(array_computation, "np", WithoutMemory())
        with pytest.raises(nd.OutOfMemory, match=r"cannot allocate 32 bytes for an output of shape \[8\]"):
            array_computation.compute_arrays(compilation, [array], [(8,)])
    np.testing.assert_array_equal(compilation.run(array)[0], 2 * array)
