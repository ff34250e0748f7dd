"""Random models with many kinds of operations, and their executions on devices."""

from collections.abc import Sequence
from typing import Any

import numpy as np

import neurald as nd
from neurald.drivers.opencl.assembly import Compiled
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.prepared_model import OpenClPreparedModel
from neurald.drivers.opencl.runtime.constants import DeviceConstants
from neurald.drivers.opencl.runtime.program import BuiltProgram
from neurald.hal.device import ExecuteOptions, PreparedModel
from neurald.hal.memory.pool import HostMemory
from neurald.hal.model.model import Model
from neurald.hal.model.request import Argument, Request
from neurald.hal.operations.machinery.call import Array

FLOAT, INT32, BOOL = nd.OperandType.TENSOR_FLOAT32, nd.OperandType.TENSOR_INT32, nd.OperandType.TENSOR_BOOL8
QUANT8 = nd.OperandType.TENSOR_QUANT8_ASYMM_SIGNED
ROWS, COLUMNS = 5, 6

_Op = nd.OperationType


class Models:
    """Builds a model operand by operand; the default shape is (ROWS, COLUMNS)."""

    def __init__(self, seed: int = 0) -> None:
        self.generator = np.random.default_rng(seed)
        self.builder = nd.ModelBuilder()
        self.inputs: list[int] = []
        self.types: dict[int, nd.OperandType] = {}

    def input(self, kind: nd.OperandType = FLOAT, shape: Sequence[int] = (ROWS, COLUMNS)) -> int:
        self.inputs.append(self._operand(kind, shape))
        return self.inputs[-1]

    def _operand(self, kind: nd.OperandType, shape: Sequence[int]) -> int:
        scale = 0.25 if kind is QUANT8 else 0.0
        index = self.builder.add_operand(kind, shape, scale=scale, zero_point=3 if kind is QUANT8 else 0)
        self.types[index] = kind
        return index

    def number(self, value: bool | float) -> int:
        kind = {bool: nd.OperandType.BOOL, int: nd.OperandType.INT32}.get(type(value), nd.OperandType.FLOAT32)
        index = self.builder.add_operand(kind)
        self.builder.set_operand_value(index, value)
        return index

    def constant(self, array: Any, kind: nd.OperandType | None = None) -> int:
        array = np.asarray(array)
        kind = kind or (FLOAT if array.dtype.kind == "f" else INT32)
        index = self._operand(kind, array.shape)
        self.builder.set_operand_value(index, array.astype(kind.dtype))
        return index

    def add(
        self,
        operation: nd.OperationType,
        inputs: Sequence[int],
        kind: nd.OperandType | None = None,
        shape: Sequence[int] = (ROWS, COLUMNS),
    ) -> int:
        output = self._operand(kind or self.types[inputs[0]], shape)
        self.builder.add_operation(operation, inputs, [output])
        return output

    def finish(self, *outputs: int, relaxed: bool = False) -> Model:
        self.builder.identify_inputs_and_outputs(self.inputs, outputs)
        self.builder.relax_computation_float32_to_float16(relaxed)
        return self.builder.finish()


def random_model(seed: int, operations: int = 10) -> Model:
    """Creates a model of chains, branches and joins, mostly of floats, with several outputs."""
    models = Models(seed)
    generator = models.generator
    floats = [models.input(), models.input()]
    integers = [models.input(INT32)]
    quantised = [models.input(QUANT8)]

    def pick(values: list[int]) -> int:
        return values[int(generator.integers(len(values)))]

    for _ in range(operations):
        choice = int(generator.integers(16))
        value = pick(floats)
        if choice == 0:
            function = (_Op.ADD, _Op.SUB, _Op.MUL)[int(generator.integers(3))]
            activation = models.number(int(generator.integers(4)))
            floats.append(models.add(function, [value, pick(floats), activation]))
        elif choice == 1:
            function = (_Op.TANH, _Op.LOGISTIC, _Op.RELU, _Op.ABS, _Op.RELU6)[int(generator.integers(5))]
            floats.append(models.add(function, [value]))
        elif choice == 2:
            turned = models.add(_Op.TRANSPOSE, [value, models.constant([1, 0])], shape=(COLUMNS, ROWS))
            floats.append(models.add(_Op.RESHAPE, [turned, models.constant([ROWS, COLUMNS])]))
        elif choice == 3:
            pads = models.constant([[1, 0], [0, 2]])
            wide = models.add(_Op.PAD, [value, pads], shape=(ROWS + 1, COLUMNS + 2))
            begin, size = models.constant([0, 1]), models.constant([ROWS, COLUMNS])
            floats.append(models.add(_Op.SLICE, [wide, begin, size]))
        elif choice == 4:
            top = models.add(
                _Op.SLICE, [value, models.constant([2, 0]), models.constant([3, COLUMNS])], shape=(3, COLUMNS)
            )
            bottom = models.add(
                _Op.SLICE,
                [pick(floats), models.constant([0, 0]), models.constant([2, COLUMNS])],
                shape=(2, COLUMNS),
            )
            floats.append(models.add(_Op.CONCATENATION, [top, bottom, models.number(0)]))
        elif choice == 5:
            total = models.add(
                _Op.REDUCE_SUM, [value, models.constant([1]), models.number(True)], shape=(ROWS, 1)
            )
            floats.append(models.add(_Op.SUB, [value, total, models.number(0)]))
        elif choice == 6:
            floats.append(models.add(_Op.SOFTMAX, [value, models.number(0.5)]))
        elif choice == 7:
            weights = models.constant(generator.normal(size=(COLUMNS, COLUMNS)) * 0.3)
            bias = models.constant(generator.normal(size=COLUMNS))
            floats.append(models.add(_Op.FULLY_CONNECTED, [value, weights, bias, models.number(1)]))
        elif choice == 8:
            places = models.constant(generator.integers(0, ROWS, ROWS))
            floats.append(models.add(_Op.GATHER, [value, models.number(0), places]))
        elif choice == 9:
            less = models.add(_Op.LESS, [value, pick(floats)], BOOL)
            floats.append(models.add(_Op.SELECT, [less, value, pick(floats)], FLOAT))
        elif choice == 10:
            image = models.add(
                _Op.RESHAPE, [value, models.constant([1, ROWS, COLUMNS, 1])], shape=(1, ROWS, COLUMNS, 1)
            )
            numbers = [models.number(each) for each in (1, 1, 1, 3, 3, 0)]
            kind = (_Op.AVERAGE_POOL_2D, _Op.MAX_POOL_2D)[int(generator.integers(2))]
            pooled = models.add(kind, [image, *numbers], shape=(1, ROWS, COLUMNS, 1))
            floats.append(models.add(_Op.RESHAPE, [pooled, models.constant([ROWS, COLUMNS])]))
        elif choice == 11:
            image = models.add(_Op.RESHAPE, [value, models.constant([1, ROWS, 2, 3])], shape=(1, ROWS, 2, 3))
            weights = models.constant(generator.normal(size=(3, 3, 3, 3)) * 0.2)
            bias = models.constant(generator.normal(size=3))
            numbers = [models.number(each) for each in (1, 1, 1, 1)]
            seen = models.add(_Op.CONV_2D, [image, weights, bias, *numbers], shape=(1, ROWS, 2, 3))
            floats.append(models.add(_Op.RESHAPE, [seen, models.constant([ROWS, COLUMNS])]))
        elif choice == 12:
            number = pick(integers)
            other = models.add(_Op.MUL, [number, pick(integers), models.number(0)])
            integers.append(models.add(_Op.ADD, [other, number, models.number(0)]))
        elif choice == 13:
            quantised.append(models.add(_Op.ADD, [pick(quantised), pick(quantised), models.number(1)]))
        elif choice == 14:
            floats.append(models.add(_Op.DEQUANTIZE, [pick(quantised)], FLOAT))
        else:
            quantised.append(models.add(_Op.QUANTIZE, [value], QUANT8))
    computed = [v for v in (*floats, *integers, *quantised) if v not in models.inputs]
    outputs = dict.fromkeys([computed[-1], *(pick(computed) for _ in range(2))])
    return models.finish(*outputs)


def random_inputs(model: Model, seed: int = 0) -> list[Array]:
    """Returns random numbers of both signs for every input of a model."""
    generator = np.random.default_rng(seed)
    arrays = []
    for index in model.main.inputs:
        operand = model.main.operands[index]
        shape, dtype = operand.dimensions or (), operand.type.dtype
        if dtype.kind == "f":
            arrays.append(generator.standard_normal(shape).astype(dtype))
        elif dtype.kind == "b":
            arrays.append(generator.random(shape) < 0.5)
        else:
            arrays.append(generator.integers(0 if dtype.kind == "u" else -40, 40, shape).astype(dtype))
    return arrays


def request_of(
    model: Model, inputs: Sequence[Array | None], shapes: Sequence[Sequence[int]] | None = None
) -> tuple[Request, list[Array]]:
    """Creates a request with a pool for each argument; returns it and its outputs.

    `shapes` are those of the outputs if the model leaves them open.
    """
    main = model.main
    pools: list[HostMemory] = []
    arguments: list[Argument] = []

    def argument(array: Array | None, dimensions: tuple[int, ...] | None = None) -> Argument:
        if array is None:
            return Argument()
        pools.append(HostMemory(array.reshape(-1).view(np.uint8)))
        return Argument(pool=len(pools) - 1, offset=0, length=array.nbytes, dimensions=dimensions)

    for index, array in zip(main.inputs, inputs, strict=True):
        given = None if array is None else np.ascontiguousarray(array)
        is_open = given is not None and main.operands[index].dimensions != given.shape
        arguments.append(argument(given, given.shape if given is not None and is_open else None))
    outputs: list[Array] = []
    for position, index in enumerate(main.outputs):
        operand = main.operands[index]
        shape = tuple(operand.dimensions or () if shapes is None else shapes[position])
        # Elements that are not written are unlikely to be correct.
        outputs.append(np.full(shape, 77, operand.type.dtype))
        arguments.append(argument(outputs[-1]))
    count = len(main.inputs)
    return (
        Request(inputs=tuple(arguments[:count]), outputs=tuple(arguments[count:]), pools=tuple(pools)),
        outputs,
    )


def run(prepared: PreparedModel, model: Model, inputs: Sequence[Array]) -> list[Array]:
    """Runs one execution; returns its outputs."""
    request, outputs = request_of(model, inputs)
    assert prepared.execute(request, ExecuteOptions()).is_sufficient
    return outputs


def prepared_from(opencl: DeviceContext, compiled: Compiled, text: str) -> OpenClPreparedModel:
    """Creates a prepared model from a compilation with another text for its kernels."""
    program = BuiltProgram.from_source(opencl, text)
    constants = DeviceConstants(opencl, compiled.constants, keeps_contents=False)
    return OpenClPreparedModel(opencl, compiled.executable, program, constants)


def expect_close(results: Sequence[Array], expected: Sequence[Array], tolerance: float = 2e-5) -> None:
    """Asserts equality: of floats within a tolerance, of quantised values up to 1, else exactly."""
    for result, wanted in zip(results, expected, strict=True):
        assert (result.shape, result.dtype) == (wanted.shape, wanted.dtype)
        if wanted.dtype.kind == "f":
            np.testing.assert_allclose(result, wanted, rtol=tolerance, atol=tolerance)
        elif wanted.dtype.itemsize == 1 and wanted.dtype.kind != "b":
            assert np.abs(result.astype(int) - wanted.astype(int)).max(initial=0) <= 1
        else:
            np.testing.assert_array_equal(result, wanted)
