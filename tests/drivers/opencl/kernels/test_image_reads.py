"""Kernels that read images equal those that read only buffers exactly.

NEURALD_UPDATE_GOLDEN=1 rewrites the files in `golden/images` instead of comparing with them.
"""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.compiler.contractions import TYPES, Case, Cases
from support.compiler.graphs import GraphBuilder
from support.opencl.kernels import GRAPHS, kernels
from support.opencl.sources import Bench, opencl_facts
from support.sweeps import sweep

from neurald.drivers.compiler.ir.expression import apply, load
from neurald.drivers.compiler.ir.graph import Graph
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.opencl.kernels.fused import pair
from neurald.drivers.opencl.kernels.select import candidates
from neurald.drivers.opencl.platform.device_facts import DeviceFacts, DeviceKind
from neurald.drivers.opencl.platform.storage import ImageSupport
from neurald.hal.records import replace

FACTS = opencl_facts()
pytestmark = pytest.mark.skipif(FACTS is None, reason="no OpenCL device")

GOLDEN = Path(__file__).parents[1] / "golden" / "images"
UPDATE_VARIABLE = "NEURALD_UPDATE_GOLDEN"

IMAGES = ImageSupport(
    types=frozenset((Scalar.INT8, Scalar.UINT8, Scalar.INT32, Scalar.UINT32, Scalar.FLOAT16, Scalar.FLOAT32)),
    max_texels=1 << 27,
    max_arguments=8,
    supports_sub_buffers=False,
    alignment_bytes=128,
)
NO_IMAGES = replace(IMAGES, types=frozenset())

MAKE: dict[str, Callable[[Cases, Scalar], Case]] = {
    "convolution": lambda cases, kind: cases.convolution(kind),
    "few windows": lambda cases, kind: cases.few_windows(kind),
    "depthwise": lambda cases, kind: cases.depthwise(kind),
    "matrices": lambda cases, kind: cases.matrix_product(kind),
    "few rows": lambda cases, kind: cases.matrix_product(kind, rows=3),
}


def residual() -> Graph:
    """Returns an elementwise kernel with rows of whole texels."""
    builder = GraphBuilder()
    first, second, bias = builder.input(3, 8), builder.input(3, 8, type=Scalar.FLOAT16), builder.input(8)
    return builder.finish(
        builder.compute(
            (3, 8),
            lambda i, j: apply(
                Op.TANH, load(first, (i, j)) + load(second, (i, j)).to(Scalar.FLOAT32) + load(bias, (j,))
            ),
        )
    )


GOLDEN_GRAPHS: dict[str, Callable[[], Graph]] = {
    "residual": residual,
    **{name: GRAPHS[name] for name in ("convolution", "depthwise", "quantised_product")},
}


def gpu(images: ImageSupport, *, has_dot_product: bool = False) -> DeviceFacts:
    """Returns a GPU whose kernels also run on CPUs."""
    assert FACTS is not None
    return replace(
        FACTS,
        kind=DeviceKind.GPU,
        compute_units=16,
        max_work_group_size=64,
        local_memory_bytes=32 * 1024,
        is_nvidia=False,
        has_dot_product=has_dot_product,
        images=images,
    )


@sweep("name", GOLDEN_GRAPHS)
def test_golden_texts(name: str) -> None:
    facts = gpu(IMAGES, has_dot_product=name == "quantised_product")
    sources = [candidates(each, facts, relaxed=False)[0] for each in kernels(GOLDEN_GRAPHS[name]())]
    assert all(source.images for source in sources)
    text = "".join(source.text for source in sources)
    path = GOLDEN / f"{name}.cl"
    if os.environ.get(UPDATE_VARIABLE):
        path.write_text(text)
    assert text == path.read_text(), f"{UPDATE_VARIABLE}=1 accepts the change"


def test_every_golden_file_has_a_graph() -> None:
    assert {path.stem for path in GOLDEN.glob("*.cl")} == set(GOLDEN_GRAPHS)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("is_integer", [False, True])
@pytest.mark.parametrize("form", MAKE)
def test_images_and_buffers_give_the_same_bits(form: str, is_integer: bool, bench: Bench) -> None:
    """For each form, with one float and one integer type."""
    number = 2 * list(MAKE).index(form) + is_integer
    kind = TYPES[2 * is_integer + number // 2 % 2]
    # The first one of random shapes of which anything is read four elements at a time.
    for seed in range(number, number + 100):
        case = MAKE[form](Cases(seed), kind)
        sources = candidates(
            case.kernel, gpu(IMAGES, has_dot_product=is_integer and number % 4 == 3), relaxed=False
        )
        source = sources[number % len(sources)]
        if source.images:
            break
    assert source.images
    others = candidates(
        case.kernel, gpu(NO_IMAGES, has_dot_product=is_integer and number % 4 == 3), relaxed=False
    )
    other = others[number % len(sources)]
    assert (other.label, other.images) == (source.label, ())
    found, expected = (bench.run(each, case.arrays)[0] for each in (source, other))
    np.testing.assert_array_equal(found.view(np.uint8), expected.view(np.uint8))
    case.assert_equal(found, source.label)


def test_fused_depthwise_convolutions(bench: Bench) -> None:
    case = Cases(1).separable(Scalar.FLOAT16)
    first, second = case.kernels
    source, other = (pair.candidates(first, second, gpu(each))[0] for each in (IMAGES, NO_IMAGES))
    # The image and the weights of both; not always all of what follows them.
    assert {1, 2, 3} <= set(source.images)
    found, expected = (bench.run(each, case.arrays)[0] for each in (source, other))
    np.testing.assert_array_equal(found.view(np.uint8), expected.view(np.uint8))
    case.assert_equal(found)


def test_a_value_that_is_both_matrices(bench: Bench) -> None:
    builder = GraphBuilder()
    source = builder.input(8, 16, type=Scalar.INT8)
    total = builder.matrix_product(source, source, type=Scalar.INT32, left_zero=3, right_zero=3)
    graph = builder.finish(builder.compute((8, 8), lambda *at: load(total, at) >> 3))
    (kernel,) = kernels(graph)
    array = np.random.default_rng(0).integers(-128, 128, (8, 16)).astype(np.int8)
    wide = array.astype(np.int32) - 3
    for has_dot_product in (False, True):
        sources = candidates(kernel, gpu(IMAGES, has_dot_product=has_dot_product), relaxed=False)
        for each in {source.label.split(",")[0]: source for source in sources}.values():
            result, _ = bench.run(each, {source: array})
            np.testing.assert_array_equal(result, (wide @ wide.T) >> 3, err_msg=each.label)


def test_limits_apply_to_each_argument() -> None:
    case = next(
        case
        for case in (Cases(seed).depthwise(Scalar.FLOAT32) for seed in range(100))
        if candidates(case.kernel, gpu(IMAGES), relaxed=False)[0].images[:2] == (1, 2)
    )
    image, weights = case.kernel.contraction.inputs  # type: ignore[union-attr]
    few = replace(IMAGES, max_texels=min(image.count, weights.count) // 4)
    source = candidates(case.kernel, gpu(few), relaxed=False)[0]
    small, large = (2, 1) if weights.count < image.count else (1, 2)
    assert small in source.images
    assert large not in source.images
    assert f"image1d_buffer_t a{small}" in source.text
    assert f"image1d_buffer_t a{large}" not in source.text
