"""Fuzzes `.tflite` files.

Each must run or be refused, and compiled results must match references.

Loading and running on references must use bounded memory; compiling may use any amount.
"""

import math
import random
import tempfile
import tracemalloc
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from fuzz.mutators import mutate
from fuzz.target import Finding, kind_of, mutate_bytes
from random_graphs.comparison import Envelope
from random_graphs.graph import RandomGraph

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice
from neurald.hal.model.model import Model
from neurald.hal.model.types import OperandType
from neurald.hal.validation.model_rules import validate_model

Array = np.ndarray[Any, Any]

_ROOT = Path(__file__).resolve().parents[2]
#: Executions check their deadline between operations, the longest of which takes seconds.
_EXECUTION_S = 4.0
#: Limit on the allocations of loading and preparing, as a multiple of the size of the file and its
#: declared inputs and outputs …
_ALLOCATION_FACTOR = 4
#: … plus Python's own needs for an empty model.
_ALLOCATION_BASE = 4 << 20
#: Limit on the elements of an input or output for running: larger ones take long without being
#: wrong.
_LARGEST_ARRAY = 1 << 22
#: Limit on the elements of all values of a model for compiling and comparing.
_LARGEST_COMPARED = 1 << 20
#: Limit on the magnitude of float constants for comparing; damage also sets exponents.
_MAX_CONSTANT = 1e6
#: Seeds are small, so that many cases run quickly.
_LARGEST_SEED = 700_000
#: One in this many files that run is also compiled.
_COMPILED_EVERY = 3


class TfliteTarget:
    """Implements `Target`."""

    limit_s = 120.0
    address_space = 4 << 30

    def __init__(self, models: Path | None) -> None:
        self._models = models
        self._folder = tempfile.TemporaryDirectory()
        self._path = Path(self._folder.name) / "case.tflite"
        self._references, self._compiled = CpuDevice(compiles=False), CpuDevice()
        self._is_warm = False

    def paths(self) -> list[Path]:
        """Returns valid models: those in the folder, if any, and the project's own."""
        own = [_ROOT / "service" / "demo" / "digits.tflite"]
        found = sorted(self._models.glob("*/*.tflite")) if self._models is not None else []
        return own + [path for path in found if path.stat().st_size <= _LARGEST_SEED]

    def seeds(self) -> Sequence[bytes]:
        """See `Target.seeds`."""
        return [path.read_bytes() for path in self.paths()]

    def mutate(self, content: bytes, rng: random.Random) -> tuple[bytes, str]:
        """See `Target.mutate`: mutates arbitrary bytes of a file that is too damaged to be read."""
        try:
            return mutate(content, rng)
        except Exception:
            return mutate_bytes(content, rng)

    def run(self, content: bytes) -> str:
        """See `Target.run`."""
        if not self._is_warm:
            self._is_warm = True
            self._warm_up()
        self._path.write_bytes(content)
        tracemalloc.start()
        try:
            outcome, model, arrays, expected = self._on_references(content)
        finally:
            tracemalloc.stop()
        if expected is None or model is None or zlib.crc32(content) % _COMPILED_EVERY:
            return outcome
        return self._when_compiled(model, arrays, expected)

    def _warm_up(self) -> None:
        """Runs a valid model, so that what a process imports and reads once counts for no case."""
        content = self.paths()[0].read_bytes()
        self._path.write_bytes(content)
        self._on_references(content)

    def _on_references(
        self, content: bytes
    ) -> tuple[str, Model | None, list[Array], tuple[Array, ...] | None]:
        before = tracemalloc.get_traced_memory()[0]
        try:
            model = nd.load_tflite(self._path)
            _check_valid(model)
            compilation = _compilation(model, self._references)
        except nd.Error as error:
            _check_peak(before, len(content))
            text = str(error).replace(str(self._path), "")
            return f"refused {error.code.name}: {kind_of(text)}", None, [], None
        _check_peak(before, len(content) + _io_bytes(model))
        try:
            arrays = inputs_of(model)
            outputs = _executed(compilation, arrays)
        except nd.Error as error:
            return f"failed {error.code.name}: {kind_of(str(error))}", None, [], None
        except MemoryError:
            return "inputs too large", None, [], None
        return "ran", model, arrays, outputs

    def _when_compiled(self, model: Model, arrays: list[Array], expected: tuple[Array, ...]) -> str:
        elements = sum(
            math.prod(operand.dimensions or ()) for operand in model.main.operands if operand.dimensions
        )
        has_state = bool(model.state) or any(
            operand.type is OperandType.TENSOR_STRING for operand in model.main.operands
        )
        if elements > _LARGEST_COMPARED or has_state or not _has_ordinary_constants(model):
            return "ran, and is not compared"
        try:
            outputs = _executed(_compilation(model, self._compiled), arrays)
        except nd.Error as error:
            if error.code in (nd.ResultCode.MISSED_DEADLINE_TRANSIENT, nd.ResultCode.OUT_OF_MEMORY):
                return f"ran, and compiled failed: {error.code.name}"
            raise Finding(
                f"compiled {error.code.name}, but ran on references: {kind_of(str(error))}"
            ) from None
        graph = RandomGraph(seed=0, model=model, inputs=tuple(arrays), expected=expected)
        envelope = Envelope(graph)
        for position, (output, wanted) in enumerate(zip(outputs, expected, strict=True)):
            compared = _with_equal_overflows(output, wanted)
            why = envelope.difference(position, compared, is_exact=False)
            if why:
                raise Finding(f"compiled differs from references in output {position}: {why}")
        return "ran, also compiled"

    def pieces(self, content: bytes) -> Sequence[tuple[int, int]]:
        """See `Target.pieces`.

        The bytes that differ from the nearest valid file of the same length.
        """
        same = [seed for seed in self.seeds() if len(seed) == len(content)]
        if not same:
            return [(at, byte) for at, byte in enumerate(content)][:1]
        base = min(same, key=lambda seed: _differences(seed, content))
        return [(at, byte) for at, byte in enumerate(content) if base[at] != byte]

    def joined(self, pieces: Sequence[tuple[int, int]], content: bytes) -> bytes:
        """See `Target.joined`."""
        same = [seed for seed in self.seeds() if len(seed) == len(content)]
        if not same:
            return content
        data = bytearray(min(same, key=lambda seed: _differences(seed, content)))
        for at, byte in pieces:
            data[at] = byte
        return bytes(data)

    def close(self) -> None:
        """See `Target.close`."""
        self._folder.cleanup()


def _differences(first: bytes, second: bytes) -> int:
    return int((np.frombuffer(first, np.uint8) != np.frombuffer(second, np.uint8)).sum())


def _compilation(model: Model, device: nd.Device) -> nd.Compilation:
    builder = nd.CompilationBuilder(model, [device])
    builder.set_caching(None)
    return builder.finish()


def _io_bytes(model: Model) -> int:
    """Returns the bytes of declared inputs, outputs and variables.

    Unspecified lengths count as 1.
    """
    total = 0
    for index in (*model.main.inputs, *model.main.outputs):
        operand = model.main.operands[index]
        total += math.prod(d or 1 for d in operand.dimensions or ()) * operand.type.dtype.itemsize
    return total


def _has_ordinary_constants(model: Model) -> bool:
    """Returns False if a float constant is infinite, NaN or beyond `_MAX_CONSTANT`.

    Kernels and references leave out different products with zeros of padding, and where large terms
    cancel, the result is the rounding error of a sum, which depends on the order of its terms.
    """
    graphs = (model.main, *model.referenced)
    constants = (model.constant(operand) for graph in graphs for operand in graph.operands)
    return all(
        bool((np.abs(values) <= _MAX_CONSTANT).all())
        for values in constants
        if values is not None and values.dtype.kind in "fc"
    )


def _with_equal_overflows(output: Array, expected: Array) -> Array:
    """Returns the output with the expected value wherever both are infinite or NaN.

    Which of these a sum that overflows yields depends on the order of its terms.
    """
    if output.dtype.kind not in "fc" or output.shape != expected.shape:
        return output
    return np.where(np.isfinite(output) | np.isfinite(expected), output, expected)


def _check_valid(model: Model) -> None:
    """Checks all rules, of which loading checks those of operations when it adds them."""
    try:
        validate_model(model)
    except nd.Error as error:
        raise Finding(f"the loaded model is not valid: {error}") from None


def _check_peak(before: int, size_bytes: int) -> None:
    peak = tracemalloc.get_traced_memory()[1] - before
    if peak > _ALLOCATION_BASE + _ALLOCATION_FACTOR * size_bytes:
        raise Finding(f"{peak} bytes were allocated for {size_bytes} bytes of file, inputs and outputs")


def inputs_of(model: Model) -> list[Array]:
    """Returns random inputs, always the same.

    Raises:
        MemoryError: they are too large for a case.
    """
    rng = np.random.default_rng(0)
    arrays: list[Array] = []
    for index in model.inputs:
        operand = model.main.operands[index]
        numbers = rng.integers(0, 100, _shape(operand.dimensions))
        is_text = operand.type is OperandType.TENSOR_STRING
        arrays.append(numbers.astype(np.bytes_ if is_text else operand.type.dtype))
    return arrays


def _shape(dimensions: tuple[int, ...] | None) -> tuple[int, ...]:
    shape = tuple(d or 1 for d in dimensions or ())
    if math.prod(shape) > _LARGEST_ARRAY:
        raise MemoryError
    return shape


def _executed(compilation: nd.Compilation, arrays: Sequence[Array]) -> tuple[Array, ...]:
    model = compilation.model
    execution = nd.Execution(compilation)
    for position, array in enumerate(arrays):
        execution.set_input(position, array)
    operands = [model.main.operands[index] for index in model.outputs]
    outputs = [np.zeros(_shape(operand.dimensions), operand.type.dtype) for operand in operands]
    for position, output in enumerate(outputs):
        execution.set_output(position, output)
    execution.set_timeout(_EXECUTION_S)
    execution.compute()
    shapes = execution.output_shapes()
    return tuple(
        output.reshape(-1)[: math.prod(shape)].reshape(shape)
        for output, shape in zip(outputs, shapes, strict=True)
    )


def create(models: Path | None) -> TfliteTarget:
    """Creates the target."""
    np.seterr(all="ignore")
    return TfliteTarget(models)
