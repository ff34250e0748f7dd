"""Operations that are compiled for open lengths give the results of their references.

All dimensions of the inputs of a random case are opened, and the code for its shapes is then used
for others.
"""

import logging
import random
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import numpy as np
import pytest
from support.tflite.builder import TfliteModel

import neurald as nd
from neurald.drivers.compiler.ir.extents.extent import MIN_LENGTH
from neurald.drivers.cpu.device import CpuDevice, process_settings
from neurald.drivers.cpu.preparation import Preparation
from neurald.drivers.cpu.prepared_model import CpuPreparedModel
from neurald.drivers.cpu.target.target import host_target
from neurald.hal.device import ExecuteOptions
from neurald.hal.errors import Error
from neurald.hal.execution.array_model import ExecutionLimits
from neurald.hal.execution.reference_graph import ExecutionState, ReferenceGraph
from neurald.hal.model.model import Model
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Array, Shape
from neurald.hal.records import replace
from neurald.runtime.tflite.file.schema_enums import TensorType
from neurald.service.conformance.cases.case import Case, CaseSignature, generate, signatures

#: Parts into which the operations are divided, and the number of cases of each operation.
_PARTS, _CASES = 12, 1
#: Number of sets of shapes that the code for a case is used for.
_SHAPES = 4
_MAX_ELEMENTS = 100_000


def cases(part: int) -> Iterator[Case]:
    by_type = [list(rows) for _, rows in groupby(signatures(), lambda each: each.definition.type)]
    chosen = random.Random(part)
    for rows in by_type[part::_PARTS]:
        for _ in range(_CASES):
            signature: CaseSignature = chosen.choice(rows)
            case = generate(signature, chosen.randrange(1 << 20))
            if case is not None and not case.model.referenced:
                yield case


def opened(case: Case) -> Model | None:
    """Returns the model of a case with open inputs; None if there is nothing to open."""
    main = case.model.main
    operands = list(main.operands)
    ends = [operands[index] for index in (*main.inputs, *main.outputs)]
    if any(operand.type is OperandType.TENSOR_STRING for operand in ends):
        return None
    shapes = [array.shape for array in case.inputs]
    if any(0 in shape for shape in shapes) or not any(length >= MIN_LENGTH for s in shapes for length in s):
        return None
    for index, shape in zip(main.inputs, shapes, strict=True):
        dimensions = tuple(0 if length >= MIN_LENGTH else length for length in shape)
        operands[index] = replace(operands[index], dimensions=dimensions)
    for index in main.outputs:
        operands[index] = replace(operands[index], dimensions=(0,) * len(operands[index].dimensions or ()))
    return replace(case.model, main=replace(main, operands=tuple(operands)))


def other_shapes(shapes: list[Shape], chosen: random.Random) -> list[Shape]:
    """Returns shapes with other lengths; equal lengths of the same dimension stay equal."""
    lengths: dict[tuple[int, int], int] = {}

    def other(dimension: int, length: int) -> int:
        if length < MIN_LENGTH:
            return length
        candidates = (2, 3, length, length + 1, 2 * length, chosen.randint(2, 40))
        return lengths.setdefault((dimension, length), chosen.choice(candidates))

    return [tuple(other(n, length) for n, length in enumerate(shape)) for shape in shapes]


def expected(model: Model, inputs: list[Array]) -> list[Array] | None:
    """Returns the results of the reference; None if it refuses the inputs."""
    try:
        with np.errstate(all="ignore"):
            limits = ExecutionLimits(ExecuteOptions())
            return ReferenceGraph(model, model.main).run(inputs, ExecutionState((), limits))
    except (Error, ValueError):
        return None


def assert_close(found: Array, wanted: Array, what: str) -> None:
    assert found.shape == wanted.shape, what
    if wanted.dtype.kind not in "fc":
        difference: Any = found.astype(np.int64) - wanted.astype(np.int64)
        assert abs(difference).max(initial=0) <= 1, what
        return
    is_finite = np.isfinite(wanted)
    largest = float(np.abs(wanted[is_finite]).max(initial=1e-3))
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted), what)
    np.testing.assert_allclose(
        found[is_finite].astype(np.complex128),
        wanted[is_finite].astype(np.complex128),
        rtol=5e-3,
        atol=2e-3 * largest,
        err_msg=what,
    )


@pytest.mark.parametrize("part", range(_PARTS))
@pytest.mark.sampled(4)
def test_open_lengths_give_the_results_of_references(part: int) -> None:
    chosen, compared = random.Random(part), 0
    target = host_target(process_settings())
    for case in cases(part):
        model = opened(case)
        if model is None:
            continue
        shapes = [array.shape for array in case.inputs]
        try:
            prepared = Preparation(target, 1, keeps_artifact=False).open(
                model, dict(zip(model.main.inputs, shapes, strict=True))
            )
        except Error:
            continue
        if prepared is None:
            continue
        for attempt in range(_SHAPES):
            others = other_shapes(shapes, chosen) if attempt else shapes
            if sum(int(np.prod(shape)) for shape in others) > _MAX_ELEMENTS:
                continue
            inputs = [
                np.ascontiguousarray(np.resize(array, shape))
                for array, shape in zip(case.inputs, others, strict=True)
            ]
            sized = prepared.for_shapes(others)
            variant = None if sized is None else sized.prepared
            wanted = None if variant is None else expected(model, inputs)
            if not isinstance(variant, CpuPreparedModel) or wanted is None:
                # `test_strings` compares those with strings.
                continue
            if variant.native.executable.bounded:
                continue
            results = variant.native.run_arrays(inputs)
            assert prepared.output_shapes(others) == tuple(each.shape for each in results)
            for found, each in zip(results, wanted, strict=True):
                assert_close(found, each, f"{case.identifier} for {others} instead of {shapes}")
            compared += 1
    assert compared > 0


@pytest.mark.parametrize("code", ["ARG_MAX", "ARG_MIN"])
def test_largest_elements_of_rows_of_any_length(
    code: str, compiles_here: None, caplog: pytest.LogCaptureFixture
) -> None:
    """Keys of rows of known lengths stay in registers; others have code for all lengths."""
    file = TfliteModel()
    graph = file.subgraph()
    source = graph.tensor((3, 1), shape_signature=(3, -1))
    last = graph.tensor((), "INT32", data=np.array(-1, np.int32), has_rank=True)
    output = graph.tensor((3,), "INT32")
    options = "Arg" + code[4:].title() + "Options"
    graph.operator(code, [source, last], [output], options, OutputType=TensorType.INT32)
    graph.inputs, graph.outputs = [source], [output]
    builder = nd.CompilationBuilder(nd.load_tflite(file.build()), [CpuDevice()])
    builder.set_caching(None)
    compilation = builder.finish()
    chosen = np.random.default_rng(3)
    with caplog.at_level(logging.INFO, "neurald"):
        for length in (67, 2, 3, 16, 65, 1000):
            # Many elements are equal, and the first of them counts.
            array = chosen.integers(0, 9, (3, length)).astype(np.float32)
            wanted = np.argmax(array, 1) if code == "ARG_MAX" else np.argmin(array, 1)
            np.testing.assert_array_equal(compilation.run(array)[0], wanted)
    assert "only valid for these lengths" not in caplog.text


@pytest.mark.parametrize("name", ["SUM", "MAX", "PROD"])
def test_rows_of_any_length_are_combined(
    name: str, compiles_here: None, caplog: pytest.LogCaptureFixture
) -> None:
    """Rows of known lengths are written out; others have code for all lengths."""
    file = TfliteModel()
    graph = file.subgraph()
    source = graph.tensor((3, 2), shape_signature=(-1, -1))
    segments = graph.tensor((3,), "INT32", shape_signature=(-1,))
    count = graph.tensor((), "INT32", data=np.array(4, np.int32), has_rank=True)
    output = graph.tensor((4, 2), shape_signature=(4, -1))
    graph.operator(f"UNSORTED_SEGMENT_{name}", [source, segments, count], [output])
    graph.inputs, graph.outputs = [source, segments], [output]
    builder = nd.CompilationBuilder(nd.load_tflite(file.build()), [CpuDevice()])
    builder.set_caching(None)
    compilation = builder.finish()
    chosen = np.random.default_rng(3)
    function, start = {
        "SUM": (np.add, 0.0),
        "MAX": (np.maximum, float(np.finfo(np.float32).min)),
        "PROD": (np.multiply, 1.0),
    }[name]
    with caplog.at_level(logging.INFO, "neurald"):
        for rows, width in ((67, 71), (5, 2), (2, 16), (9, 37), (40, 300)):
            array = chosen.integers(-2, 3, (rows, width)).astype(np.float32)
            numbers = chosen.integers(-1, 4, rows).astype(np.int32)
            wanted = np.full((4, width), start, np.float32)
            function.at(wanted, numbers[numbers >= 0], array[numbers >= 0])
            np.testing.assert_array_equal(compilation.run(array, numbers)[0], wanted)
    assert "only valid for these lengths" not in caplog.text
    assert caplog.text.count("operations for lengths") == 1
