"""Kernels of four elements per work-item equal those of single elements exactly."""

from collections.abc import Callable

import numpy as np
import pytest
from support.compiler.graphs import GraphBuilder, random_array
from support.opencl.kernels import kernels
from support.opencl.sources import Bench, opencl_facts

from neurald.drivers.compiler.ir.expression import Expression, apply, axis, clamp, load, reduce, select
from neurald.drivers.compiler.ir.graph import Graph, inside
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.opencl.codegen.render import render
from neurald.drivers.opencl.kernels import elementwise4
from neurald.drivers.opencl.platform.device_facts import DeviceFacts, DeviceKind
from neurald.drivers.opencl.platform.storage import ImageSupport
from neurald.hal.records import replace

FACTS = opencl_facts()
pytestmark = pytest.mark.skipif(FACTS is None, reason="no OpenCL device")

IMAGES = ImageSupport(
    types=frozenset((Scalar.INT8, Scalar.UINT8, Scalar.INT32, Scalar.FLOAT16, Scalar.FLOAT32)),
    max_texels=1 << 20,
    max_arguments=8,
    supports_sub_buffers=False,
    alignment_bytes=128,
)


def with_images(images: ImageSupport | None = IMAGES) -> DeviceFacts:
    """Returns the device as a CPU that reads images, or does not."""
    assert FACTS is not None
    return replace(FACTS, images=images, kind=DeviceKind.CPU)


def sums(shape: tuple[int, ...], kind: Scalar = Scalar.FLOAT32) -> Graph:
    """Returns a sum of two values of a shape and a bias, times a constant."""
    builder = GraphBuilder()
    first, second = builder.input(*shape, type=kind), builder.input(*shape, type=kind)
    bias, factor = builder.input(shape[-1]), builder.input(1)

    def body(*at):  # type: ignore[no-untyped-def]
        total = load(first, at).to(Scalar.FLOAT32) + load(second, at).to(Scalar.FLOAT32)
        total = apply(Op.TANH, total + load(bias, at[-1:])) * load(factor, (at[0] * 0,)) * 99.0
        return (clamp(total, -100.0, 100.0) if kind.is_integer else total).to(kind)

    return builder.finish(builder.compute(shape, body))


def compared() -> Graph:
    """Returns a comparison of INT32 with a BOOL result."""
    builder = GraphBuilder()
    first, second = builder.input(4, 3, type=Scalar.INT32), builder.input(4, 3, type=Scalar.INT32)
    return builder.finish(builder.compute((4, 3), lambda *at: load(first, at) < load(second, at)))


def selected() -> Graph:
    """Returns a selection by a BOOL, which has no images, of a value also read elsewhere."""
    builder = GraphBuilder()
    holds, source = builder.input(4, 8, type=Scalar.BOOL), builder.input(4, 8, type=Scalar.FLOAT16)
    return builder.finish(
        builder.compute(
            (4, 8),
            lambda i, j: select(load(holds, (i, j)), load(source, (i, j)), load(source, (i, j * -1 + 7))),
        )
    )


def shifted() -> Graph:
    """Returns loads from texels of other rows, and behind a guard."""
    builder = GraphBuilder()
    source, edge = builder.input(6, 8, type=Scalar.UINT8), builder.input(2, 8, type=Scalar.UINT8)
    return builder.finish(
        builder.compute(
            (4, 8),
            lambda i, j: (
                load(source, (i + 2, j)).to(Scalar.INT32)
                + load(edge, (i, j), inside((i,), (2,)), 7).to(Scalar.INT32)
            ),
        )
    )


MAKE: dict[str, Callable[[], Graph]] = {
    "whole rows": lambda: sums((3, 5, 8)),
    "rows that end between texels": lambda: sums((4, 5, 7)),
    "float16": lambda: sums((2, 70, 4), Scalar.FLOAT16),
    "signed bytes": lambda: sums((3, 12), Scalar.INT8),
    "bytes": lambda: sums((8, 3), Scalar.UINT8),
    "compared": compared,
    "selected": selected,
    "shifted": shifted,
}


@pytest.mark.parametrize("name", MAKE)
def test_vectors_equal_single_elements(name: str, bench: Bench) -> None:
    graph = MAKE[name]()
    (kernel,) = kernels(graph)
    source, plain = elementwise4.candidates(kernel, with_images())
    assert source.images
    assert 4 * source.groups >= plain.groups
    generator = np.random.default_rng(1)
    arrays = {value: random_array(generator, value.shape, value.type) for value in graph.inputs}
    (found, status), (expected, _) = (bench.run(each, arrays) for each in (source, plain))
    np.testing.assert_array_equal(found.view(np.uint8), expected.view(np.uint8))
    assert status == 0
    assert plain.name == render(kernel).name


def joined() -> Graph:
    """Returns a concatenation of two values and a third that is repeated, plus a bias."""
    builder = GraphBuilder()
    first, second = builder.input(2, 8, type=Scalar.FLOAT16), builder.input(3, 8, type=Scalar.FLOAT16)
    last, bias = builder.input(8, type=Scalar.FLOAT16), builder.input(6, 8)

    def body(i: Expression, j: Expression) -> Expression:
        rest = load(second, (i - 2, j), inside((i - 2,), (3,)), load(last, (j,)))
        return load(first, (i, j), inside((i,), (2,)), rest).to(Scalar.FLOAT32) + load(bias, (i, j))

    return builder.finish(builder.compute((6, 8), body))


@pytest.mark.parametrize("name", [*MAKE, "joined"])
def test_vectors_of_buffers(name: str, bench: Bench) -> None:
    """GPUs that read buffers; conditions that hold for all four elements do not prevent it."""
    graph = joined() if name == "joined" else MAKE[name]()
    (kernel,) = kernels(graph)
    gpu = replace(with_images(None), kind=DeviceKind.GPU)
    source, plain = elementwise4.candidates(kernel, gpu)
    assert not source.images
    assert "? " in source.text or name not in ("joined", "shifted")
    generator = np.random.default_rng(1)
    arrays = {value: random_array(generator, value.shape, value.type) for value in graph.inputs}
    (found, _), (expected, _) = (bench.run(each, arrays) for each in (source, plain))
    np.testing.assert_array_equal(found.view(np.uint8), expected.view(np.uint8))
    assert elementwise4.candidates(kernel, replace(gpu, kind=DeviceKind.CPU)) == ()


def test_unsupported_kernels() -> None:
    builder = GraphBuilder()
    source, along = builder.input(5, 8), axis(8, "r")
    total = builder.compute((5,), lambda i: reduce(ReductionOp.SUM, (along,), load(source, (i, along))))
    (reduced,) = kernels(builder.finish(total))
    (odd,) = kernels(sums((3, 5)))
    (even,) = kernels(sums((3, 8)))
    for kernel, images in (
        (reduced, IMAGES),
        (odd, IMAGES),
        (even, replace(IMAGES, types=frozenset())),
        (even, None),
    ):
        assert elementwise4.candidates(kernel, with_images(images)) == ()
    builder = GraphBuilder()
    turned = builder.input(8, 8)
    (transposed,) = kernels(builder.finish(builder.compute((8, 8), lambda i, j: load(turned, (j, i)))))
    assert elementwise4.candidates(transposed, with_images()) == ()
