"""Runs models of one operator, and checks their outputs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from support.models.whole_model import run_references
from support.tflite.builder import TfliteModel
from support.tflite.operator import Load

from neurald.drivers.cpu.device import CpuDevice
from neurald.hal.model.model import Model
from neurald.hal.operations.machinery.call import Array
from neurald.runtime.compilation import Compilation
from neurald.runtime.compilation_builder import CompilationBuilder
from neurald.runtime.tflite import load_tflite

DTYPES = {
    "FLOAT32": np.float32,
    "FLOAT16": np.float16,
    "INT64": np.int64,
    "INT32": np.int32,
    "INT16": np.int16,
    "INT8": np.int8,
    "UINT8": np.uint8,
    "BOOL": np.bool_,
}

#: Tensors of 16-bit numbers with zero points, which LiteRT accepts for some operators.
INT16_FIRST = {"type_": "INT16", "scale": 0.03, "zero_point": 5}
INT16_SECOND = {"type_": "INT16", "scale": 0.02, "zero_point": -5}
INT16_RESULT = {"type_": "INT16", "scale": 0.05, "zero_point": 10}
#: Values for `INT16_FIRST` and `INT16_SECOND`.
FIRST_VALUES = np.array([[-32768, -300, -5], [5, 40, 32767]], np.int16)
SECOND_VALUES = np.array([[-450, 200, -4], [8, -1000, 1]], np.int16)


def int8(zero_point: int, scale: float = 0.03) -> dict[str, Any]:
    """Describes the type of a tensor of signed bytes."""
    return {"type_": "INT8", "scale": scale, "zero_point": zero_point}


def counted(kind: str, *shape: int) -> Array:
    """Returns the numbers 0, 1, 2, …, 99, 0, 1, …"""
    return (np.arange(np.prod(shape, dtype=int)).reshape(shape) % 100).astype(DTYPES[kind])


def compile_file(file: TfliteModel, path: Path) -> Compilation:
    """Writes and loads a file, and compiles its model."""
    return CompilationBuilder(load_tflite(file.write(path))).finish()


def check(model: Model, expected: Array, *inputs: Any) -> None:
    """Asserts type and values of the only output of the references."""
    (result,) = run_references(model, *inputs)
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


def run_operator(
    load: Load,
    *arrays: Array,
    code: str,
    inputs: Sequence[dict[str, Any]],
    output: dict[str, Any],
    options: str | None = None,
    **values: Any,
) -> list[Any]:
    """Loads a model as `load_operator` does, and returns its only output as a list."""
    model = load(code, inputs, output, options, **values)
    (result,) = CompilationBuilder(model).finish().run(*arrays)
    return list(result.tolist())


def run_on_cpu(model: Model, *arrays: Array) -> list[Any]:
    """Returns the first output as a flat list, after checking that kernels and references agree."""
    first, second = (
        CompilationBuilder(model, [CpuDevice(compiles=compiles)]).finish().run(*arrays)[0]
        for compiles in (False, True)
    )
    np.testing.assert_array_equal(first, second)
    return list(first.ravel().tolist())


def run_with_kernels(model: Model, *inputs: Array) -> Array:
    """Returns the references' only output, after checking that kernels are as close as 1e-5."""
    (reference,) = run_references(model, *inputs)
    (compiled,) = CompilationBuilder(model, [CpuDevice()]).finish().run(*inputs)
    np.testing.assert_allclose(compiled, reference, rtol=1e-5)
    return reference
