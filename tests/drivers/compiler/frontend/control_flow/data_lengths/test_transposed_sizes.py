"""Transposed convolutions whose output shape is data are compiled once for all of its values."""

import logging
from typing import Any

import numpy as np
import pytest
from support.sweeps import sweep
from support.tflite.builder import TfliteModel

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.device import Device
from neurald.hal.model.types import PaddingScheme

_DEPTH, _CHANNELS = 3, 5


def compiled(file: TfliteModel, device: Device) -> nd.Compilation:
    builder = nd.CompilationBuilder(nd.load_tflite(file.build()), [device])
    builder.set_caching(None)
    return builder.finish()


@sweep("padding", PaddingScheme)
@sweep("kernel, stride, kind", [(3, 2, "FLOAT32"), (2, 4, "INT8"), (1, 1, "FLOAT32")])
@sweep("is_open", [False, True])
def test_all_sizes(
    kernel: int,
    stride: int,
    kind: str,
    padding: PaddingScheme,
    compiles_here: None,
    caplog: pytest.LogCaptureFixture,
    *,
    is_open: bool,
) -> None:
    """Sizes that a convolution would not have given the input are refused."""
    random = np.random.default_rng(3)
    scales: dict[str, Any] = {"scale": 0.25} if kind == "INT8" else {}
    file = TfliteModel()
    graph = file.subgraph()
    signature = (1, -1, -1, _DEPTH) if is_open else None
    value = graph.tensor((1, 7, 9, _DEPTH), kind, shape_signature=signature, **scales)
    weights = random.integers(-9, 9, (_CHANNELS, kernel, kernel, _DEPTH))
    filters = graph.tensor(weights.shape, kind, data=weights, **scales)
    of_bias: dict[str, Any] = {"type_": "INT32", "scale": 0.0625} if scales else {}
    bias = graph.tensor((_CHANNELS,), data=np.arange(-2, 3), **of_bias)
    shape = graph.tensor((4,), "INT32")
    result = graph.tensor((1, 1, 1, _CHANNELS), kind, shape_signature=(1, -1, -1, _CHANNELS), **scales)
    graph.operator(
        "TRANSPOSE_CONV",
        [shape, filters, value, bias],
        [result],
        "TransposeConvOptions",
        Padding=padding is PaddingScheme.VALID,
        StrideH=stride,
        StrideW=stride,
        FusedActivationFunction=1,
    )
    graph.inputs, graph.outputs = [value, shape], [result]
    compilation, references = compiled(file, CpuDevice()), compiled(file, ReferenceDevice())
    caplog.clear()
    with caplog.at_level(logging.INFO, "neurald"):
        for rows, columns in ((7, 9), (12, 8), (20, 33)) if is_open else ((7, 9),):
            array = random.integers(-9, 9, (1, rows, columns, _DEPTH)).astype(kind.lower())
            spans = [(each - 1) * stride + kernel for each in (rows, columns)]
            if padding is PaddingScheme.SAME:
                ends = [(span - kernel + 1, (span - kernel) + stride) for span in spans]
            else:
                ends = [(span, span + stride - 1) for span in spans]
            sizes = [*zip(*ends, strict=True), (ends[0][0], ends[1][1])]
            for height, width in sizes:
                given = np.array([1, height, width, _CHANNELS], np.int32)
                (found,), (expected,) = (each.run(array, given) for each in (compilation, references))
                np.testing.assert_array_equal(found, expected)
            assert "on references" not in caplog.text
            for wrong in (
                (1, ends[0][1] + 1, ends[1][0], _CHANNELS),
                (1, ends[0][0] - 1, ends[1][0], _CHANNELS),
                (1, ends[0][0], ends[1][0], _CHANNELS + 1),
                (2, ends[0][0], ends[1][0], _CHANNELS),
            ):
                with pytest.raises(nd.Error):
                    compilation.run(array, np.array(wrong, np.int32))
            caplog.clear()
