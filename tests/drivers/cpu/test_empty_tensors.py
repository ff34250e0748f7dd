"""Every operation that accepts tensors without elements is compiled, without references."""

from collections.abc import Iterator, Sequence
from itertools import groupby, islice

import pytest
from support.opencl.models import INT32, QUANT8, Models, expect_close, random_inputs, request_of

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.model.model import Model
from neurald.hal.operations.machinery.call import Array
from neurald.service.conformance.cases.case import Case, generate_pinned, signatures
from neurald.service.conformance.recipes.draw import EMPTY

_FLOAT, _LONG, _BOOL = (
    nd.OperandType.TENSOR_FLOAT32,
    nd.OperandType.TENSOR_INT64,
    nd.OperandType.TENSOR_BOOL8,
)


def _cases() -> Iterator[Case]:
    """Yields a case for each operation that may have an empty tensor."""
    for _, rows in groupby(signatures(), lambda each: each.definition.type):
        drawn = (generate_pinned(row, 1, {EMPTY: True}, "empty", attempts=5) for row in islice(rows, 2))
        case = next((each for each in drawn if each is not None), None)
        if case is not None:
            yield case


@pytest.mark.slow
def test_every_operation(caplog: pytest.LogCaptureFixture) -> None:
    device, count = CpuDevice(), 0
    for case in _cases():
        prepared = device.prepare_model(case.model, PrepareOptions(threads=1))
        assert not caplog.records, case.type.name
        # Scalars are bound as arrays of rank 1 here, which this operation distinguishes from rank
        # 0.
        if case.type is not nd.OperationType.TFLITE_SPARSE_TO_DENSE:
            request, outputs = request_of(case.model, case.inputs, [each.shape for each in case.expected])
            assert prepared.execute(request, ExecuteOptions()).is_sufficient
            expect_close(outputs, case.expected, 1e-3)
        count += 1
    assert count > 120


@pytest.mark.parametrize("kind", [_FLOAT, QUANT8, _LONG, INT32, _BOOL], ids=lambda kind: kind.name)
@pytest.mark.parametrize(
    ("shapes", "axis"),
    [
        (((2, 0), (3, 0)), 0),
        (((2, 0), (2, 5), (2, 0)), 1),
        (((2, 5), (0, 5), (0, 5), (3, 5)), 0),
        (((0, 3, 4), (0, 3, 4)), 2),
        (((2, 3, 0), (2, 1, 0)), 1),
        (((0, 0), (0, 0)), 0),
        (((64, 0, 40), (64, 9, 40), (64, 0, 40)), 1),
    ],
    ids=str,
)
def test_a_concatenation_with_empty_parts(
    kind: nd.OperandType,
    shapes: tuple[tuple[int, ...], ...],
    axis: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """All parts are computed, including the empty ones; kernels store them in place if they can."""
    models = Models()
    parts = []
    for shape in shapes:
        source = models.input(kind, tuple(max(1, length) for length in shape))
        begin, size = models.constant([0] * len(shape)), models.constant(shape)
        parts.append(models.add(nd.OperationType.TFLITE_SLICE, [source, begin, size], shape=()))
    joined = models.add(nd.OperationType.TFLITE_CONCATENATION, [*parts, models.number(axis)], shape=())
    # A reader of the result, which may be fused with it.
    model = models.finish(joined, models.add(nd.OperationType.TFLITE_SLICE, [joined, begin, size], shape=()))
    inputs = random_inputs(model)
    found, expected = (_computed(model, device, inputs) for device in (CpuDevice(), ReferenceDevice()))
    assert not caplog.records
    assert expected[0].shape[axis] == sum(shape[axis] for shape in shapes)
    expect_close(found, expected, 0)


def _computed(model: Model, device: nd.Device, inputs: Sequence[Array]) -> list[Array]:
    builder = nd.CompilationBuilder(model, [device])
    builder.set_caching(None)
    return builder.finish().run(*inputs)
