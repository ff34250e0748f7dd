from typing import Any

import numpy as np
import pytest
from support.models.whole_model import run_references
from support.tflite.operator import Load, fixed, random, shaped
from support.tflite.results import DTYPES, check, counted, int8, run_on_cpu, run_with_kernels
from support.tflite.stablehlo import long


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("is_fed", [False, True])
def test_padding_with_a_value(load: Load, kind: str, *, is_fed: bool) -> None:
    x, pairs = counted(kind, 2, 3), [[1, 0], [0, 2]]
    value = shaped(type_=kind, has_rank=True) if is_fed else fixed(1, kind)
    model = load("PADV2", (shaped(2, 3, type_=kind), fixed(pairs, "INT32"), value), shaped(1, 1, type_=kind))
    check(model, np.pad(x, pairs, constant_values=1), x, *((1,) if is_fed else ()))


@pytest.mark.parametrize("mode", ["reflect", "symmetric"])
def test_mirror_pad(load: Load, mode: Any) -> None:
    x, pairs = counted("INT64", 2, 3), [[1, 0], [0, 2]]
    inputs = shaped(2, 3, type_="INT64"), fixed(pairs, "INT64")
    number = ["reflect", "symmetric"].index(mode)
    model = load("MIRROR_PAD", inputs, shaped(1, 1, type_="INT64"), "MirrorPadOptions", Mode=number)
    check(model, np.pad(x, pairs, mode=mode), x)


def test_padding_is_the_zero_point_of_the_output(load: Load) -> None:
    inputs = [shaped(2, 3, **int8(1)), fixed([[0, 0], [1, 0]], "INT32")]
    model = load("PAD", inputs, shaped(2, 4, **int8(4)), "PadOptions")
    assert run_on_cpu(model, np.arange(6, dtype=np.int8).reshape(2, 3)) == [4, 0, 1, 2, 4, 3, 4, 5]


def test_padding_with_another_output_scale(load: Load) -> None:
    source = shaped(2, type_="INT8", scale=0.5, zero_point=7)
    result = shaped(4, type_="INT8", scale=0.25, zero_point=-5)
    model = load("PAD", (source, fixed([[1, 1]], "INT32")), result)
    np.testing.assert_array_equal(run_with_kernels(model, np.array([3, 4], np.int8)), [-5, 3, 4, -5])


def test_stablehlo_pad(load: Load) -> None:
    options = {"EdgePaddingLow": long(1, -1), "EdgePaddingHigh": long(0, 2), "InteriorPadding": long(1, 0)}
    model = load("STABLEHLO_PAD", (shaped(2, 3), fixed(5.0)), shaped(1, 1), "StablehloPadOptions", **options)
    x = random(2, 3)
    expected = np.full((4, 4), 5, np.float32)
    expected[1::2, :2] = x[:, 1:]
    np.testing.assert_array_equal(run_references(model, x)[0], expected)
