"""Dimensions that a model leaves open, and those that an execution must or may set.

Restates TestUnspecifiedDimensions. The model is `output = transpose(input + constant)`. Operands
are declared in full, with an unknown dimension, or with unknown rank. An execution sets all
dimensions, some or none, rightly or wrongly. It binds an array or memory that is too small, of the
right size or too large, with and without padding.
"""

import itertools
import math
from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest
from support.errors import error_code
from support.sweeps import sweep

import neurald as nd
from neurald.hal.errors import BadData
from neurald.hal.memory.pool import HostMemory
from neurald.hal.model.types import Dimensions

pytestmark = pytest.mark.usefixtures("compiles_here")

INPUT, OUTPUT = (2, 3), (3, 2)
Code = nd.ResultCode

#: How the model declares an operand of a given shape: in full, with an unknown dimension, or with
#: unknown rank.
LEVELS = ("full", "dimension", "rank")
TYPES = {
    nd.OperandType.TENSOR_FLOAT32: 0.0,
    nd.OperandType.TENSOR_FLOAT16: 0.0,
    nd.OperandType.TENSOR_QUANT8_ASYMM: 1.0,
}
BUFFERS = {"less": -1, "equal": 0, "more": 2}


def specified(shape: tuple[int, ...], level: str) -> Dimensions:
    return {"full": shape, "dimension": (shape[0], 0), "rank": None}[level]


def build(
    kind: nd.OperandType,
    source: Dimensions,
    between: Dimensions,
    result: Dimensions,
    constant: Dimensions = INPUT,
) -> nd.Model:
    scale = TYPES[kind]
    builder = nd.ModelBuilder()

    def operand(dimensions: Dimensions) -> int:
        return builder.add_operand(kind, dimensions or (), scale=scale)

    first, second, middle, last = (operand(d) for d in (source, constant, between, result))
    activation = builder.add_operand(nd.OperandType.INT32)
    order = builder.add_operand(nd.OperandType.TENSOR_INT32, (2,))
    builder.set_operand_value(activation, 0)
    builder.set_operand_value(order, np.array([1, 0], np.int32))
    builder.set_operand_value(second, np.full(INPUT, 3, kind.dtype))
    builder.add_operation(nd.OperationType.ADD, [first, second, activation], [middle])
    builder.add_operation(nd.OperationType.TRANSPOSE, [middle, order], [last])
    builder.identify_inputs_and_outputs([first], [last])
    return builder.finish()


@cache
def compiled(
    kind: nd.OperandType, source: Dimensions, between: Dimensions, result: Dimensions
) -> nd.Compilation:
    return nd.CompilationBuilder(build(kind, source, between, result), [nd.devices()[0]]).finish()


def agrees(declared: Dimensions, given: Dimensions) -> bool:
    """Returns True if the execution's shape matches the model's and is as specific."""
    if declared is None or given is None:
        return True
    return len(declared) == len(given) and all(d in (0, g) for d, g in zip(declared, given, strict=True))


def contradicts(claimed: Dimensions, real: tuple[int, ...]) -> bool:
    return claimed is not None and any(c not in (0, r) for c, r in zip(claimed, real, strict=True))


def is_full(dimensions: Dimensions) -> bool:
    return dimensions is not None and 0 not in dimensions


def elements(claimed: Dimensions, real: tuple[int, ...], buffer: str) -> int:
    size = math.prod(claimed if claimed is not None and is_full(claimed) else real)
    return size + BUFFERS[buffer]


#: What an execution sets: all dimensions, some, a wrong one among all or some, or none.
def claims(shape: tuple[int, ...]) -> Sequence[Dimensions]:
    first, second = shape
    return ((first, second), (first, 0), (first + 2, second), (first + 2, 0), None)


def bind(
    execution: nd.Execution,
    array: "np.ndarray[tuple[int, ...], np.dtype[np.generic]]",
    claimed: Dimensions,
    *,
    is_output: bool,
    in_memory: bool,
) -> Code:
    """Returns the result code of binding the only input or output."""
    try:
        if in_memory:
            set_memory = execution.set_output_from_memory if is_output else execution.set_input_from_memory
            set_memory(0, HostMemory(array), 0, array.nbytes, claimed)
        else:
            (execution.set_output if is_output else execution.set_input)(0, array, claimed)
    except nd.Error as error:
        return error.code
    return Code.NO_ERROR


def compute(execution: nd.Execution) -> Code:
    try:
        execution.compute()
    except nd.Error as error:
        return error.code
    return Code.NO_ERROR


def models() -> list[tuple[str, str, str]]:
    return list(itertools.product(LEVELS, LEVELS, LEVELS))


def ways() -> list[tuple[str, bool, bool]]:
    """Returns size of the buffer, padding, and whether it is a memory or an array."""
    return list(itertools.product(BUFFERS, (False, True), (False, True)))


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_inputs(kind: nd.OperandType) -> None:
    for levels in models():
        source, between = (specified(INPUT, level) for level in levels[:2])
        compilation = compiled(kind, source, between, specified(OUTPUT, levels[2]))
        for claimed, (buffer, padding, in_memory) in itertools.product(claims(INPUT), ways()):
            if claimed is None and not in_memory:
                continue  # an array always has a shape
            execution = nd.Execution(compilation)
            execution.enable_input_and_output_padding(padding)
            array = np.arange(elements(claimed, INPUT, buffer)).astype(kind.dtype)
            code = bind(execution, array, claimed, is_output=False, in_memory=in_memory)
            known = source if claimed is None else claimed
            is_taken = (
                agrees(source, claimed)
                and is_full(known)
                and (buffer == "equal" or (buffer == "more" and padding))
            )
            what = (levels, claimed, buffer, padding, in_memory)
            assert code is (Code.NO_ERROR if is_taken else Code.BAD_DATA), what
            if not is_taken:
                continue
            result = np.zeros(OUTPUT, kind.dtype)
            execution.set_output(0, result)
            is_wrong = contradicts(claimed, INPUT)
            assert compute(execution) is (Code.OP_FAILED if is_wrong else Code.NO_ERROR), what
            if not is_wrong:
                assert np.array_equal(result, array[:6].reshape(INPUT).T + np.array(3, kind.dtype)), what


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_outputs(kind: nd.OperandType) -> None:
    values = np.arange(6).reshape(INPUT).astype(kind.dtype)
    for levels in models():
        source, between = (specified(INPUT, level) for level in levels[:2])
        declared = specified(OUTPUT, levels[2])
        compilation = compiled(kind, source, between, declared)
        for claimed, (buffer, padding, in_memory) in itertools.product(claims(OUTPUT), ways()):
            execution = nd.Execution(compilation)
            execution.enable_input_and_output_padding(padding)
            execution.set_input(0, values)
            array = np.zeros(elements(claimed, OUTPUT, buffer), kind.dtype)
            code = bind(execution, array, claimed, is_output=True, in_memory=in_memory)
            known = declared if claimed is None else claimed
            fits = not is_full(known) or buffer == "equal" or (buffer == "more" and padding)
            what = (levels, claimed, buffer, padding, in_memory)
            is_taken = agrees(declared, claimed) and fits
            assert code is (Code.NO_ERROR if is_taken else Code.BAD_DATA), what
            if not is_taken:
                continue
            expected = Code.NO_ERROR
            if contradicts(known, OUTPUT):
                expected = Code.OP_FAILED
            elif buffer == "less":
                expected = Code.OUTPUT_INSUFFICIENT_SIZE
            assert compute(execution) is expected, what
            if expected is Code.OP_FAILED:
                assert error_code(execution.output_dimensions, 0) is Code.BAD_STATE
                continue
            assert execution.output_dimensions(0) == OUTPUT, what
            if expected is Code.NO_ERROR:
                assert np.array_equal(array[:6].reshape(OUTPUT), values.T + np.array(3, kind.dtype)), what


@sweep("kind", TYPES, ids=lambda kind: kind.name)
@sweep("constant", [(2, 0), (0, 3), None, (2, 4), (3, 3)], ids=str)
def test_constants_are_specified_and_right(kind: nd.OperandType, constant: Dimensions) -> None:
    for levels in models():
        source, between = (specified(INPUT, level) for level in levels[:2])
        result = specified(OUTPUT, levels[2])
        assert error_code(build, kind, source, between, result, constant) is Code.BAD_DATA


@sweep("kind", TYPES, ids=lambda kind: kind.name)
@sweep("wrong", ["between", "result"])
@sweep("is_open", [False, True])
def test_contradictions_inside_the_model_fail_cleanly(
    kind: nd.OperandType, wrong: str, is_open: bool
) -> None:
    """A contradiction inside the model is found when the model is finished if possible, otherwise
    when it runs.
    """
    for levels in models():
        source, between = (specified(INPUT, level) for level in levels[:2])
        result = specified(OUTPUT, levels[2])
        if wrong == "between":
            between = (INPUT[0] + 2, 0 if is_open else INPUT[1])
        else:
            result = (OUTPUT[0] + 2, 0 if is_open else OUTPUT[1])
        try:
            model = build(kind, source, between, result)
        except BadData:
            continue
        execution = nd.Execution(nd.CompilationBuilder(model, [nd.devices()[0]]).finish())
        execution.set_input(0, np.zeros(INPUT, kind.dtype))
        room = math.prod(result) if result is not None and is_full(result) else 64
        execution.set_output(0, np.zeros(room, kind.dtype))
        assert compute(execution) is Code.OP_FAILED, levels
