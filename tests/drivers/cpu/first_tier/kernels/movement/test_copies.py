"""Movements of the first tier give the results of references."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.cpu.first_tier import TARGETS_HERE, prepared, results
from support.cpu.layers import (
    BOOL,
    FLOAT,
    INT32,
    INT64,
    PER_CHANNEL,
    SHORT,
    SIGNED,
    UNSIGNED,
    LayerBuilder,
    check,
    values,
)

import neurald as nd
from neurald.drivers.cpu.prepared_model import CpuPreparedModel


@pytest.mark.parametrize("kind", [FLOAT, INT32, SIGNED], ids=lambda kind: kind.name)
def test_reshaping_copies(kind: nd.OperandType) -> None:
    build = LayerBuilder(1)
    scale = {"scale": 0.1, "zero_point": 2} if kind is SIGNED else {}
    given = build.operand(kind, (3, 1371), **scale)
    output = build.operand(kind, (1371, 3), **scale)
    shape = build.constant(INT32, np.array([1371, 3], np.int32))
    model = build.model(nd.OperationType.RESHAPE, [given, shape], output, [given])
    array = (np.random.default_rng(0).integers(0, 2, (3, 1371))).astype(kind.dtype)
    for target in TARGETS_HERE:
        found = prepared(model, target)
        assert isinstance(found, CpuPreparedModel)
        np.testing.assert_array_equal(results(found, model, [array])[0], array.reshape(1371, 3))


def moving_model(operation: str, kind: nd.OperandType) -> nd.Model:
    """Builds a model that moves the elements of (3, 4, 5) values."""
    build = LayerBuilder(0)
    scale = {"scale": 0.1, "zero_point": 7} if kind in (UNSIGNED, SIGNED) else {}
    given = build.operand(kind, (3, 4, 5), **scale)

    def integers(*numbers: Any) -> int:
        return build.constant(INT32, np.array(numbers, np.int32))

    forms: dict[str, Callable[[], tuple[list[int], tuple[int, ...]]]] = {
        "TRANSPOSE": lambda: ([given, integers(2, 0, 1)], (5, 3, 4)),
        "SLICE": lambda: ([given, integers(1, 0, 2), integers(2, 4, 3)], (2, 4, 3)),
        "PAD": lambda: ([given, integers([1, 0], [0, 2], [1, 1])], (4, 6, 7)),
        "TILE": lambda: ([given, integers(1, 2, 2)], (3, 8, 10)),
        "CONCATENATION": lambda: ([given, given, build.scalar(1)], (3, 8, 5)),
    }
    inputs, shape = forms[operation]()
    output = build.operand(kind, shape, **scale)
    return build.model(nd.OperationType[operation], inputs, output, [given])


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("operation", ["TRANSPOSE", "SLICE", "PAD", "TILE", "CONCATENATION"])
def test_movements(target: str, operation: str) -> None:
    for kind in (FLOAT, SIGNED, UNSIGNED):
        check(moving_model(operation, kind), target, threads=2)


def test_packed_numbers_keep_their_bits() -> None:
    for kind in (SIGNED, UNSIGNED):
        build = LayerBuilder(0)
        given = [build.operand(kind, (3, 5), scale=scale, zero_point=7) for scale in (0.5, 0.1)]
        output = build.operand(kind, (3, 2, 5), scale=0.01, zero_point=3)
        inputs = [build.scalar(1), *given]
        check(build.model(nd.OperationType.TFLITE_PACK, inputs, output, given), TARGETS_HERE[0])


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("kind", [FLOAT, SIGNED, SHORT], ids=lambda kind: kind.name)
@pytest.mark.parametrize(
    ("shape", "order"),
    [
        ((16, 16), (1, 0)),
        ((131, 33), (1, 0)),
        ((3, 17, 70), (0, 2, 1)),
        ((5, 7, 2, 90), (2, 3, 0, 1)),
        ((20, 3, 40), (2, 1, 0)),
    ],
)
def test_matrices_are_transposed_in_tiles(
    target: str, kind: nd.OperandType, shape: tuple[int, ...], order: tuple[int, ...]
) -> None:
    build = LayerBuilder(3)
    scale = {"scale": 0.1, "zero_point": 0} if kind is not FLOAT else {}
    given = build.operand(kind, shape, **scale)
    output = build.operand(kind, tuple(shape[axis] for axis in order), **scale)
    permutation = build.constant(INT32, np.array(order, np.int32))
    model = build.model(nd.OperationType.TFLITE_TRANSPOSE, [given, permutation], output, [given])
    array = np.random.default_rng(1).integers(-99, 99, shape).astype(kind.dtype)
    found = prepared(model, target)
    assert isinstance(found, CpuPreparedModel)
    assert {call.function for call in found.native.executable.calls} == {f"first_transpose_{array.itemsize}"}
    np.testing.assert_array_equal(results(found, model, [array])[0], array.transpose(order))


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("kind", [SIGNED, UNSIGNED], ids=lambda kind: kind.name)
def test_concatenations_may_requantise(target: str, kind: nd.OperandType) -> None:
    build = LayerBuilder(0)
    parts = [build.operand(kind, (2, 3), scale=0.1 * n, zero_point=n) for n in (1, 2, 3)]
    output = build.operand(kind, (2, 9), scale=0.3, zero_point=3)
    model = build.model(nd.OperationType.CONCATENATION, [*parts, build.scalar(1)], output, parts)
    check(model, target)


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("kind", [FLOAT, SIGNED], ids=lambda kind: kind.name)
def test_blocks_and_mirrors(target: str, kind: nd.OperandType) -> None:
    scale = {"scale": 0.1, "zero_point": 7} if kind is SIGNED else {}
    for name, shape, numbers, result in (
        ("DEPTH_TO_SPACE", (2, 3, 5, 12), (2,), (2, 6, 10, 3)),
        ("SPACE_TO_DEPTH", (2, 6, 10, 3), (2,), (2, 3, 5, 12)),
        ("CHANNEL_SHUFFLE", (2, 3, 5, 12), (3, 3), (2, 3, 5, 12)),
    ):
        build = LayerBuilder(0)
        given, output = build.operand(kind, shape, **scale), build.operand(kind, result, **scale)
        inputs = [given, *map(build.scalar, numbers)]
        check(build.model(nd.OperationType[name], inputs, output, [given]), target)
    build = LayerBuilder(0)
    given, output = build.operand(kind, (3, 5), **scale), build.operand(kind, (5, 9), **scale)
    pairs = build.constant(INT32, np.array([[1, 1], [3, 1]], np.int32))
    model = build.model(nd.OperationType.MIRROR_PAD, [given, pairs, build.scalar(0)], output, [given])
    check(model, target)


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("kind", [FLOAT, SIGNED, INT32], ids=lambda kind: kind.name)
@pytest.mark.parametrize("index", [INT32, nd.OperandType.TENSOR_INT64], ids=lambda kind: kind.name)
@pytest.mark.parametrize(("axis", "batches"), [(0, 0), (1, 0), (2, 1), (2, 2), (3, 0)])
def test_rows_are_taken(
    target: str, kind: nd.OperandType, index: nd.OperandType, axis: int, batches: int
) -> None:
    scale = {"scale": 0.1, "zero_point": 7} if kind is SIGNED else {}
    shape, rng = (3, 4, 5, 6), np.random.default_rng(0)
    picked = (*shape[:batches], 7)
    build = LayerBuilder(0)
    given, indexes = build.operand(kind, shape, **scale), build.operand(index, picked)
    output = build.operand(kind, (*shape[:axis], *picked[batches:], *shape[axis + 1 :]), **scale)
    inputs = [given, build.scalar(axis), indexes, build.scalar(batches)]
    model = build.model(nd.OperationType.TFLITE_GATHER, inputs, output, [given, indexes])
    numbers = rng.integers(0, shape[axis], picked).astype(index.dtype)
    check(model, target, threads=2, inputs=[values(rng, kind, shape), numbers])
    for wrong in (-1, shape[axis]):
        numbers.reshape(-1)[-1] = wrong
        with pytest.raises(nd.OpFailed, match="has an index outside of 0 to"):
            results(prepared(model, target), model, [values(rng, kind, shape), numbers])


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("kind", [FLOAT, SIGNED, PER_CHANNEL], ids=lambda kind: kind.name)
def test_rows_of_tables(target: str, kind: nd.OperandType) -> None:
    build = LayerBuilder(0)
    lookups, output = build.operand(INT32, (6,)), build.operand(FLOAT, (6, 37))
    if kind is FLOAT:
        table = build.constant(FLOAT, values(build.rng, FLOAT, (9, 37)))
    else:
        numbers = values(build.rng, SIGNED, (9, 37)).clip(-127, 127)
        quant = {"channel_quant": (0, build.rng.uniform(0.1, 1, 9).tolist())}
        scale = {"scale": 0.3, "zero_point": 0}
        table = build.constant(kind, numbers, **(quant if kind is PER_CHANNEL else scale))
    operation = (
        nd.OperationType.EMBEDDING_LOOKUP if kind is FLOAT else nd.OperationType.TFLITE_EMBEDDING_LOOKUP
    )
    model = build.model(operation, [lookups, table], output, [lookups])
    check(model, target, inputs=[np.array([0, 8, 3, 3, 1, 7], np.int32)])
    with pytest.raises(nd.OpFailed, match="has an index outside of 0 to 8"):
        results(prepared(model, target), model, [np.array([0, 8, 3, 3, 1, 9], np.int32)])


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("kind", [FLOAT, SIGNED], ids=lambda kind: kind.name)
@pytest.mark.parametrize("index", [INT32, nd.OperandType.TENSOR_INT64], ids=lambda kind: kind.name)
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_runs_at_several_axes(target: str, kind: nd.OperandType, index: nd.OperandType, depth: int) -> None:
    build, rng, shape = LayerBuilder(0), np.random.default_rng(0), (4, 3, 5)
    scale = {"scale": 0.1, "zero_point": 2} if kind is SIGNED else {}
    given = build.operand(kind, shape, **scale)
    indexes = build.operand(index, (2, 7, depth))
    output = build.operand(kind, (2, 7, *shape[depth:]), **scale)
    model = build.model(nd.OperationType.TFLITE_GATHER_ND, [given, indexes], output, [given, indexes])
    numbers = np.stack([rng.integers(0, shape[axis], (2, 7)) for axis in range(depth)], -1)
    numbers = numbers.astype(index.dtype)
    check(model, target, threads=2, inputs=[values(rng, kind, shape), numbers])
    for axis in range(depth):
        for wrong in (-1, shape[axis], 1 << 30):
            changed = numbers.copy()
            changed[1, 6, axis] = wrong
            with pytest.raises(nd.OpFailed, match="has an index outside of"):
                results(prepared(model, target), model, [values(rng, kind, shape), changed])


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("kind", [FLOAT, SIGNED, BOOL], ids=lambda kind: kind.name)
@pytest.mark.parametrize("shape", [(1,), (3, 1371), (2, 70, 70)], ids=str)
def test_outputs_are_filled(target: str, kind: nd.OperandType, shape: tuple[int, ...]) -> None:
    scale = {"scale": 0.1, "zero_point": 7} if kind is SIGNED else {}
    build = LayerBuilder(0)
    given, value = build.operand(kind, shape, **scale), build.operand(kind, (), **scale)
    zeros, filled = build.operand(kind, shape, **scale), build.operand(kind, shape, **scale)
    lengths = build.constant(INT32, np.array(shape, np.int32))
    build.builder.add_operation(nd.OperationType.TFLITE_ZEROS_LIKE, [given], [zeros])
    build.builder.add_operation(nd.OperationType.TFLITE_FILL, [lengths, value], [filled])
    build.builder.identify_inputs_and_outputs([given, value], [zeros, filled])
    check(build.builder.finish(), target, threads=2)


@pytest.mark.parametrize("name", ["FILL", "TFLITE_FILL", "TFLITE_RANGE"])
def test_operations_on_constants_only_are_computed_before(name: str) -> None:
    build = LayerBuilder(0)
    given, made, output = (build.operand(FLOAT, (7,)) for _ in range(3))
    if name == "TFLITE_RANGE":
        inputs = [build.constant(FLOAT, np.array(each, np.float32)) for each in (0.5, 4, 0.5)]
    else:
        lengths = build.constant(INT32, np.array([7], np.int32))
        value = np.array(0.3, np.float32)
        is_scalar = name == "FILL"
        single = build.scalar(0.3, nd.OperandType.FLOAT32) if is_scalar else build.constant(FLOAT, value)
        inputs = [lengths, single]
    build.builder.add_operation(nd.OperationType[name], inputs, [made])
    inputs = [given, made, build.scalar(0)]
    check(build.model(nd.OperationType.ADD, inputs, output, [given]), TARGETS_HERE[0])


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("kind", [FLOAT, INT32, SIGNED, INT64], ids=lambda kind: kind.name)
def test_elements_are_placed_in_an_output(target: str, kind: nd.OperandType) -> None:
    scale = {"scale": 0.1, "zero_point": 7} if kind is SIGNED else {}

    def integers(build: LayerBuilder, *numbers: Any) -> int:
        return build.constant(INT32, np.array(numbers, np.int32))

    def constant(build: LayerBuilder, number: int, shape: tuple[int, ...]) -> int:
        return build.constant(kind, np.full(shape, number, kind.dtype), **scale)

    forms: dict[str, Callable[[LayerBuilder], tuple[list[int], tuple[tuple[int, ...], ...]]]] = {
        "MATRIX_DIAG": lambda build: ([], ((3, 37), (3, 37, 37))),
        "DILATE": lambda build: (
            [integers(build, 2, 3, 1), constant(build, 5, ())],
            ((4, 5, 6), (7, 13, 6)),
        ),
    }
    for name, form in forms.items():
        build = LayerBuilder(0)
        more, (shape, result) = form(build)
        given, output = build.operand(kind, shape, **scale), build.operand(kind, result, **scale)
        check(build.model(nd.OperationType[f"TFLITE_{name}"], [given, *more], output, [given]), target)
    for shape in ((3, 20, 37), (2, 37, 20)):
        build = LayerBuilder(0)
        given, output = (build.operand(kind, shape, **scale) for _ in range(2))
        diagonal = build.operand(kind, (shape[0], 20), **scale)
        inputs = [given, diagonal]
        check(build.model(nd.OperationType.TFLITE_MATRIX_SET_DIAG, inputs, output, inputs), target)
    # Later elements replace earlier ones in the same place.
    for taken, indexes in (((5,), [[0, 1], [2, 3], [2, 4], [0, 1], [2, 0]]), ((), [[2, 4], [0, 0]])):
        build = LayerBuilder(0)
        given, output = build.operand(kind, taken, **scale), build.operand(kind, (3, 5), **scale)
        inputs = [integers(build, *indexes), integers(build, 3, 5), given, constant(build, 3, ())]
        check(build.model(nd.OperationType.TFLITE_SPARSE_TO_DENSE, inputs, output, [given]), target)


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize(
    ("kind", "shape", "other", "result"),
    [
        (FLOAT, (3, 70), INT32, (3, 70)),
        (FLOAT, (3, 70), SIGNED, (3, 70, 4)),
        (INT32, (3, 70, 2), INT64, (3, 70)),
        (BOOL, (9, 4), INT32, (9,)),
    ],
    ids=str,
)
def test_bits_are_copied_as_another_type(
    target: str, kind: nd.OperandType, shape: tuple[int, ...], other: nd.OperandType, result: tuple[int, ...]
) -> None:
    build = LayerBuilder(0)
    given, output = build.operand(kind, shape), build.operand(other, result)
    check(build.model(nd.OperationType.TFLITE_BITCAST, [given], output, [given]), target)


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("kind", [FLOAT, SIGNED], ids=lambda kind: kind.name)
@pytest.mark.parametrize(("axis", "batch"), [(1, 0), (0, 2)])
def test_sequences_are_reversed(target: str, kind: nd.OperandType, axis: int, batch: int) -> None:
    scale = {"scale": 0.1, "zero_point": 7} if kind is SIGNED else {}
    build, shape = LayerBuilder(0), (5, 6, 5)
    given, output = build.operand(kind, shape, **scale), build.operand(kind, shape, **scale)
    lengths = build.constant(INT32, np.array([0, 1, 2, 4, 5], np.int32))
    inputs = [given, lengths, build.scalar(axis), build.scalar(batch)]
    check(build.model(nd.OperationType.TFLITE_REVERSE_SEQUENCE, inputs, output, [given]), target)


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("kind", [FLOAT, SIGNED, SHORT], ids=lambda kind: kind.name)
@pytest.mark.parametrize("length", [1, 2, 3, 4, 6, 8, 12, 16])
def test_neighbours_are_moved_together(target: str, kind: nd.OperandType, length: int) -> None:
    scale = {} if kind is FLOAT else {"scale": 0.1}
    for name, numbers, shape, result in (
        ("TFLITE_TRANSPOSE", ((1, 2, 0, 3),), (3, 5, 2, length), (5, 2, 3, length)),
        ("TFLITE_SLICE", ((1, 0, 1, 0), (2, 5, 1, length)), (3, 5, 2, length), (2, 5, 1, length)),
        ("TFLITE_SLICE", ((0, 0, 0, 1), (3, 5, 2, length)), (3, 5, 2, length + 1), (3, 5, 2, length)),
    ):
        build = LayerBuilder(0)
        given, output = build.operand(kind, shape, **scale), build.operand(kind, result, **scale)
        constants = [build.constant(INT32, np.array(each, np.int32)) for each in numbers]
        check(build.model(nd.OperationType[name], [given, *constants], output, [given]), target)


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("kind", [FLOAT, SIGNED, SHORT, INT64, BOOL], ids=lambda kind: kind.name)
def test_long_rows_are_reversed(target: str, kind: nd.OperandType) -> None:
    scale = {"scale": 0.1} if kind in (SIGNED, SHORT) else {}
    for shape, axis in (((3, 131), 1), ((5000,), 0), ((7, 3), 0)):
        build = LayerBuilder(0)
        given, output = build.operand(kind, shape, **scale), build.operand(kind, shape, **scale)
        axes = build.constant(INT32, np.array([axis], np.int32))
        inputs = [given, axes]
        check(build.model(nd.OperationType.TFLITE_REVERSE_V2, inputs, output, [given]), target, threads=2)


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("kind", [FLOAT, SIGNED, SHORT, INT64], ids=lambda kind: kind.name)
@pytest.mark.parametrize("length", [1, 2, 4, 8])
def test_parts_of_even_rows_begin_anywhere(target: str, kind: nd.OperandType, length: int) -> None:
    scale = {"scale": 0.1} if kind in (SIGNED, SHORT) else {}
    for name in ("TFLITE_SLICE", "TFLITE_DYNAMIC_UPDATE_SLICE"):
        build = LayerBuilder(0)
        whole, part = (build.operand(kind, (4, each), **scale) for each in (2 * length, length))
        begin = build.operand(INT32, (2,))
        if name == "TFLITE_SLICE":
            size = build.constant(INT32, np.array([4, length], np.int32))
            model = build.model(nd.OperationType[name], [whole, begin, size], part, [whole, begin])
        else:
            output = build.operand(kind, (4, 2 * length), **scale)
            inputs = [whole, part, begin]
            model = build.model(nd.OperationType[name], inputs, output, inputs)
        rng = np.random.default_rng(length)
        *given, _ = (
            values(rng, each.type, each.dimensions or ())
            for each in (model.main.operands[index] for index in model.main.inputs)
        )
        for place in range(length + 1):
            check(model, target, inputs=[*given, np.array([0, place], np.int32)])
