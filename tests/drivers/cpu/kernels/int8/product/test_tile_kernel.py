"""Products with tile registers give the results of the interpreted graph.

On processors without tile registers, functions take the place of their instructions.
"""

from typing import Any

import pytest
from support.cpu.emulated_tiles import emulated, with_emulated_tiles
from support.cpu.native import RUNNABLE
from support.cpu.quantized_sums import QuantizedSums, check
from support.sweeps import sweep

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.math import packed_bytes
from neurald.drivers.cpu.kernels.common.product import WeightOperand, WindowedProduct
from neurald.drivers.cpu.kernels.common.window import WindowDimension
from neurald.drivers.cpu.kernels.int8.epilogue import float_scale
from neurald.drivers.cpu.kernels.int8.plan import ProductPlan
from neurald.drivers.cpu.kernels.int8.plan_choice import plan_of
from neurald.drivers.cpu.kernels.int8.product.tile_kernel import TileMicroKernel
from neurald.drivers.cpu.kernels.int8.scheme import Scheme
from neurald.drivers.cpu.kernels.select import routine_for
from neurald.drivers.cpu.target.target import TARGETS, runs_here

AMX = TARGETS["amx"]
HAS_TILES = runs_here(AMX)
TARGET = AMX if HAS_TILES else emulated(RUNNABLE[0])
SOURCES = [Scalar.INT8, Scalar.UINT8] if HAS_TILES else [Scalar.INT8]

#: Depth, channels, height and width of pixels that are multiplied as they are.
PIXELS = [
    (64, 32, 4, 8),
    (256, 16, 1, 33),
    (128, 96, 3, 7),
    (100, 100, 5, 13),
    (116, 50, 9, 9),
    (68, 17, 1, 16),
    (192, 8, 6, 8),
    (1024, 48, 1, 15),
    (960, 5, 7, 7),
]

#: Source, kernel, channels, stride, dilation and padding of windows.
WINDOWS = [
    ((1, 7, 7, 64), (3, 3), 64, (1, 1), (1, 1), 1),
    ((2, 8, 8, 32), (3, 3), 40, (1, 1), (1, 1), 1),
    ((1, 9, 33, 48), (3, 3), 20, (1, 1), (1, 1), 1),
    ((1, 15, 15, 64), (3, 3), 48, (2, 2), (1, 1), 1),
    ((1, 14, 14, 36), (5, 5), 33, (1, 1), (1, 1), 2),
    ((1, 17, 17, 40), (3, 3), 32, (1, 1), (2, 2), 2),
    ((2, 6, 40, 64), (1, 7), 32, (1, 1), (1, 1), 0),
    ((1, 16, 5, 64), (3, 3), 32, (2, 1), (1, 1), 1),
    ((1, 12, 12, 128), (2, 2), 64, (1, 1), (1, 1), 0),
    ((1, 14, 14, 192), (3, 3), 16, (2, 2), (1, 1), 1),
    ((1, 7, 7, 192), (3, 3), 96, (1, 1), (1, 1), 1),
]

if not HAS_TILES:
    # Compiling takes long with functions.
    PIXELS, WINDOWS = PIXELS[1::3], WINDOWS[::3]


@pytest.fixture(autouse=True)
def without_other_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results are computed without instructions of AVX-512 where tiles are not the processor's."""
    if not HAS_TILES:
        monkeypatch.setattr(packed_bytes, "_BYTES", -1)
        monkeypatch.setattr(float_scale, "float_scale", lambda rule: None)


def checked_label(case: Any, seed: int) -> str:
    """Checks a case, and returns the label of its routine."""
    if HAS_TILES:
        check(case, TARGET, seed)
    else:
        check(case, TARGET, seed, with_emulated_tiles)
    routine = routine_for(case.kernel, TARGET)
    assert routine is not None
    return routine.label


@sweep("shape", PIXELS)
@pytest.mark.parametrize("source", SOURCES)
def test_pixels(shape: tuple[int, int, int, int], source: Scalar) -> None:
    depth, channels, height, width = shape
    sums = QuantizedSums(depth + channels, source=source, zeros=(9, 0), extreme=height % 2 == 0)
    case = sums.convolution(
        (1, height, width, depth), (channels, 1, 1, depth), (1, height, width, channels), sums.rescaled()
    )
    assert checked_label(case, width).startswith("int8 tiles")


@sweep("number", range(len(WINDOWS)))
@pytest.mark.parametrize("source", SOURCES)
def test_windows(number: int, source: Scalar) -> None:
    shape, kernel, channels, stride, dilation, pad = WINDOWS[number]
    sums = QuantizedSums(number, source=source, zeros=(number, 0))
    images, *sizes, depth = shape
    lengths = [
        (size + 2 * pad - (taps - 1) * gap - 1) // step + 1
        for size, taps, step, gap in zip(sizes, kernel, stride, dilation, strict=True)
    ]
    case = sums.convolution(
        shape,
        (channels, *kernel, depth),
        (images, *lengths, channels),
        sums.rescaled(type=Scalar.UINT8 if number % 2 else Scalar.INT8),
        stride=stride,
        dilation=dilation,
        padding=((pad, pad), (pad, pad)),
    )
    assert checked_label(case, number).startswith("int8 tiles")


def test_matrix_products_and_sums_without_rescaling() -> None:
    sums = QuantizedSums(1, zeros=(5, 0))
    assert checked_label(sums.product((29, 320), (72, 320)), 0).startswith("int8 tiles")
    plain = QuantizedSums(2, zeros=(-7, 0))
    case = plain.product((40, 256), (64, 256), lambda builder, value: value)
    assert checked_label(case, 1).startswith("int8 tiles")


@pytest.mark.skipif(
    not HAS_TILES, reason="this processor or kernel has no tile registers (amx_tile, amx_int8)"
)
def test_unsigned_weights_and_shallow_windows_use_vectors() -> None:
    unsigned = QuantizedSums(3, source=Scalar.UINT8, weights=Scalar.UINT8, zeros=(3, 200), extreme=True)
    shallow = QuantizedSums(4)
    for case in (
        unsigned.convolution((1, 8, 8, 64), (32, 1, 1, 64), (1, 8, 8, 32)),
        shallow.convolution((1, 9, 9, 4), (8, 1, 1, 4), (1, 9, 9, 8)),
    ):
        assert "tiles" not in checked_label(case, 0)


def plan(positions: int, depth: int, channels: int, stride: int = 1) -> ProductPlan:
    """Returns the plan of a 3 × 3 convolution of a square image with padding."""
    width = positions * stride
    side = WindowDimension(length=width, positions=positions, taps=3, stride=stride, padding_before=1)
    source = Value((1, width, width, depth), Scalar.UINT8)
    weights = Value((channels, 3, 3, depth), Scalar.INT8)
    product = WindowedProduct(
        source=source,
        weights=WeightOperand(value=weights, sets=1, channel_step=9 * depth, term_step=1),
        batches=(),
        images=1,
        rows=side,
        columns=side,
        depth=depth,
        channels=channels,
        image_bytes=width * width * depth,
        row_bytes=width * depth,
        pixel_bytes=depth,
        element_bytes=1,
        type=Scalar.UINT8,
        width=channels,
    )
    return plan_of(product, Scheme(target=AMX, is_bytes=True, has_tiles=True), is_direct=True)


def test_tiles_span_rows_and_divide_runs_evenly() -> None:
    found = plan(7, 116, 32)
    # Rows are padded to 9 pixels, and the words of a run of three pixels to a multiple of 15.
    assert (found.pitch, found.rows, found.span) == (9, 7, 61)
    assert (found.position_tiles, found.tile_rows) == (4, 16)
    assert found.first_positions == [0, 16, 32, 45]
    assert (found.tile_words, found.run_steps) == (15, 90)


def test_a_tile_has_a_row_if_rows_are_far_apart() -> None:
    found = plan(14, 256, 256, stride=2)
    # A tile of two rows and what is between them would need three registers.
    assert (found.vectors, found.rows, found.pitch, found.span) == (2, 2, 29, 43)
    assert (found.position_tiles, found.tile_rows) == (2, 14)
    assert found.first_positions == [0, 29]


def configured(found: ProductPlan) -> tuple[list[int], list[int]]:
    """Returns the columns in bytes, and the rows, that a kernel gives to tile registers."""
    code = Instructions(())
    TileMicroKernel(found, rows=0).configure(code)
    stores = [line for line in code.lines if "store i64" in line]
    words = [int(line.split("store i64 ")[1].split(",")[0]) for line in stores]
    content = b"".join(word.to_bytes(8, "little", signed=True) for word in words)
    assert content[0] == 1
    return memoryview(content[16:32]).cast("H").tolist(), list(content[48:56])


def test_the_configuration_has_the_shape_of_each_register() -> None:
    # Four tiles of sums have 14 positions each, two of weights 16 words, and two of inputs.
    assert configured(plan(14, 256, 256, stride=2)) == ([64] * 8, [14] * 4 + [16] * 2 + [14] * 2)


def test_tiles_of_inputs_share_the_registers_that_are_left() -> None:
    found = plan(7, 512, 512)
    assert (found.vectors, found.position_tiles) == (1, 4)
    # Sums, weights, and three registers for the inputs of four tiles.
    assert configured(found) == ([64] * 8, [16] * 8)
    code = Instructions(("%source", "%panel"))
    TileMicroKernel(found, rows=0).step(code, "%source", "%panel", "0")
    loaded = [line.split("i8 ")[1].split(",")[0] for line in code.lines if "tileloadd64" in line]
    assert loaded == ["4", "5", "6", "7", "5"]


def test_steps_prefetch_the_next_panel() -> None:
    sums = QuantizedSums(5, zeros=(3, 0))
    case = sums.convolution(
        (1, 14, 14, 256), (64, 1, 1, 256), (1, 14, 14, 64), sums.rescaled(), padding=((0, 0), (0, 0))
    )
    routine = routine_for(case.kernel, AMX)
    assert routine is not None
    # Weights of 16 KiB stay in the first-level cache; those of 64 KiB come from memory.
    assert "llvm.prefetch" not in routine.text
    large = QuantizedSums(6, zeros=(3, 0))
    case = large.convolution(
        (1, 14, 14, 256), (256, 1, 1, 256), (1, 14, 14, 256), large.rescaled(), padding=((0, 0), (0, 0))
    )
    routine = routine_for(case.kernel, AMX)
    assert routine is not None
    assert "llvm.prefetch" in routine.text
