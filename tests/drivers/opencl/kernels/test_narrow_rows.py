"""Kernels of whole short rows equal those of single elements exactly."""

from unittest.mock import patch

import numpy as np
import pytest
from support.compiler.graphs import GraphBuilder, random_array
from support.opencl.kernels import kernels
from support.opencl.sources import Bench, opencl_facts

from neurald.drivers.compiler.ir.expression import load, select
from neurald.drivers.compiler.ir.graph import Graph, inside
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.opencl.codegen.render import render
from neurald.drivers.opencl.kernels import narrow_rows
from neurald.drivers.opencl.platform.device_facts import DeviceFacts, DeviceKind
from neurald.hal.records import replace

FACTS = opencl_facts()
pytestmark = pytest.mark.skipif(FACTS is None, reason="no OpenCL device")


def gpu() -> DeviceFacts:
    assert FACTS is not None
    return replace(FACTS, kind=DeviceKind.GPU, images=None)


def padded(kind: Scalar, channels: int, *, read: Scalar | None = None) -> Graph:
    """Returns an image of three channels with a border and more channels."""
    builder = GraphBuilder()
    source = builder.input(2, 9, 10, 3, type=read or kind)

    def body(*at):  # type: ignore[no-untyped-def]
        place = (at[0], at[1] - 2, at[2] - 1, at[3])
        value = load(source, place, inside(place[1:], (9, 10, 3)), 0.0 if kind.is_float else 7)
        return value.to(kind)

    return builder.finish(builder.compute((2, 13, 11, channels), body))


def nested() -> Graph:
    """Returns loads whose conditions and alternatives are loads, and one without a condition."""
    builder = GraphBuilder()
    holds, source = builder.input(40, type=Scalar.BOOL), builder.input(40, 8, type=Scalar.INT8)

    def body(i, j):  # type: ignore[no-untyped-def]
        other = load(source, (i, j * -1 + 7))
        inner = load(source, (i - 3, j), (i >= 3) & load(holds, (i,)), other)
        return select(load(holds, (i,)), inner, load(source, (i - 39, j), i >= 39, 1))

    return builder.finish(builder.compute((40, 8), body))


FORMS = {
    "int8": padded(Scalar.INT8, 8),
    "four of uint8": padded(Scalar.UINT8, 4),
    "sixteen of int8": padded(Scalar.INT8, 16),
    "twelve of uint8": padded(Scalar.UINT8, 12),
    "float16": padded(Scalar.FLOAT16, 4),
    "sixteen of float16": padded(Scalar.FLOAT16, 16),
    "float32 as float16": padded(Scalar.FLOAT16, 8, read=Scalar.FLOAT32),
    "nested": nested(),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_last_rows_are_not_more_than_the_output(form: str) -> None:
    """Outputs end within the rows of a work-item; nothing else than the output is written."""
    assert FACTS is not None
    (kernel,) = kernels(FORMS[form])
    with patch.object(narrow_rows, "_MIN_ELEMENTS", 1):
        source, *others = narrow_rows.candidates(kernel, gpu())
    assert not others, "elements are only moved"
    assert source.label == "rows of narrow elements"
    generator = np.random.default_rng(1)
    arrays = {each: random_array(generator, each.shape, each.type) for each in kernel.inputs}
    found, _ = Bench(FACTS.handle).run(source, arrays)
    expected, _ = Bench(FACTS.handle).run(render(kernel), arrays)
    np.testing.assert_array_equal(found, expected)


def test_what_computes_is_compared_and_long_texts_are_avoided() -> None:
    builder = GraphBuilder()
    source = builder.input(40, 3, type=Scalar.FLOAT16)

    def body(*at):  # type: ignore[no-untyped-def]
        return load(source, at, inside(at, (40, 3))) * 2.0 + 1.0

    (kernel,) = kernels(builder.finish(builder.compute((40, 4), body)))
    with patch.object(narrow_rows, "_MIN_ELEMENTS", 1):
        assert len(narrow_rows.candidates(kernel, gpu())) == 2
        with patch.object(narrow_rows, "_MAX_EXPRESSIONS", 8):
            assert not narrow_rows.candidates(kernel, gpu())


def test_other_outputs_are_left_to_other_kernels() -> None:
    assert FACTS is not None
    (kernel,) = kernels(padded(Scalar.INT8, 8))
    assert not narrow_rows.candidates(kernel, gpu())
    with patch.object(narrow_rows, "_MIN_ELEMENTS", 1):
        assert not narrow_rows.candidates(kernel, replace(gpu(), kind=DeviceKind.CPU))
        for form in (padded(Scalar.INT8, 6), padded(Scalar.INT8, 20), padded(Scalar.FLOAT32, 4)):
            (kernel,) = kernels(form)
            assert not narrow_rows.candidates(kernel, gpu())
