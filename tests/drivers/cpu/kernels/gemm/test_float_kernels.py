"""Float kernels give the results of the graph interpreted by NumPy and stay inside their memory."""

import math

import numpy as np
import pytest
from support.compiler.contractions import Case, Cases
from support.compiler.graphs import GraphBuilder
from support.cpu.float_kernels import TARGETS, check, finished, windows
from support.cpu.native import run

from neurald.drivers.compiler.ir.graph import Convolution
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Shape
from neurald.drivers.compiler.passes.fusion.fusion import fuse
from neurald.drivers.cpu.kernels.common import convolution, tile
from neurald.drivers.cpu.kernels.common.product import WindowedProduct
from neurald.drivers.cpu.kernels.common.tile import Tile
from neurald.drivers.cpu.kernels.gemm import micro_kernel, tiled_product
from neurald.drivers.cpu.kernels.select import routine_for
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import Target

FLOATS = [Scalar.FLOAT32, Scalar.FLOAT16, Scalar.FLOAT32, Scalar.FLOAT16]

pytestmark = pytest.mark.parametrize("target", list(TARGETS.values()), ids=lambda target: target.name)


def test_convolutions(target: Target) -> None:
    check([Cases(seed).convolution(kind, groups=1 + seed % 2) for seed, kind in enumerate(FLOATS)], target)


def test_depthwise_convolutions(target: Target) -> None:
    multipliers = enumerate((1, 2, 3, 16))
    check([Cases(seed).depthwise(FLOATS[seed], multiplier=each) for seed, each in multipliers], target)


def test_depth_multipliers(target: Target) -> None:
    """Groups begin and end within vectors, of which the last one may end with the last group."""
    cases = [
        windows((1, 5, 19, channels), (3, 3, channels * multiplier), pad=1, stride=1 + channels % 2)
        for channels, multiplier in ((8, 6), (7, 5), (9, 3), (2, 17), (3, 9), (40, 3), (2, 24), (5, 7))
    ]
    cases += [Cases(seed).depthwise(Scalar.FLOAT16, multiplier=5 + seed) for seed in range(3)]
    check(cases, target)


def test_matrix_products(target: Target) -> None:
    forms: list[tuple[int | None, Shape]] = [(None, ()), (1, ()), (None, (2, 3)), (2, (3,))]
    check(
        [
            Cases(seed).matrix_product(FLOATS[seed], rows=rows, batch=batch)
            for seed, (rows, batch) in enumerate(forms)
        ],
        target,
    )


def test_borders(target: Target) -> None:
    cases = [
        windows((1, 3, 61, 8), (32, 3, 3, 8), pad=1),
        windows((2, 7, 7, 12), (40, 3, 3, 12), pad=1),
        windows((1, 9, 20, 3), (24, 7, 7, 3), pad=3, stride=2),
        windows((1, 11, 33, 4), (16, 3, 3, 4), pad=6, dilation=6),
        windows((1, 4, 4, 4), (3, 5, 5, 4), pad=7),
        windows((1, 5, 70, 36), (3, 3, 36), pad=1),
        windows((1, 9, 31, 20), (5, 3, 20), pad=2, stride=2),
        windows((1, 40, 3, 8), (9, 9, 8), pad=4),
    ]
    check(cases, target)


def test_images_of_width_1(target: Target) -> None:
    """Tiles lie along the height, whose borders have code of their own."""
    cases = []
    forms = [
        (16, 9, 1, 1, 1),
        (5, 9, 3, 1, 1),
        (20, 3, 2, 4, 1),
        (8, 5, 1, 3, 2),
        (7, 1, 2, 1, 1),
        (6, 33, 1, 1, 3),
    ]
    for channels, taps, stride, dilation, groups in forms:
        builder, before = GraphBuilder(), (taps - 1) * dilation // 2
        image = builder.input(2, 61, 1, 2 * groups)
        sums = builder.convolution(
            image,
            builder.weights(channels, taps, 1, 2),
            output=(2, -(-61 // stride), 1, channels),
            stride=(stride, 2),
            dilation=(dilation, 1),
            padding=((before, before), (0, 0)),
            groups=groups,
        )
        cases.append(finished(builder, sums, f"{channels} {taps} {stride} {dilation} {groups}"))
    check(cases, target)
    for case in cases:
        assert isinstance(case.kernel.contraction, Convolution)
        assert convolution.product_of(case.kernel.contraction).rows.positions == 1


def test_half_vectors(target: Target) -> None:
    """The last vector of sums is a half, for borders, several images, groups, and few terms."""
    cases = [
        windows((1, 6, 24, 20), (22, 3, 3, 20), pad=1),
        windows((2, 5, 7, 18), (24, 3, 3, 18), pad=2, stride=2),
        windows((1, 4, 33, 2), (17, 5, 5, 2), pad=6, dilation=3),
        windows((1, 9, 5, 24), (48, 3, 3, 12), pad=1, groups=2),
        windows((1, 1, 8, 3), (40, 1, 1, 3)),
        windows((3, 4, 4, 5), (56, 1, 1, 5)),
        windows((1, 1, 9, 150), (24, 1, 1, 150)),
        windows((1, 2, 3, 8), (24, 1, 1, 8)),
        windows((1, 6, 24, 20), (25, 3, 3, 20), pad=1),
    ]
    labels = [routine.label for routine in check(cases, target)]
    halves = [float(label.split(" x ")[0].split()[-1]) % 1 for label in labels]
    assert halves == ([0.5] * 7 + [0, 0] if target.lanes(4) == 16 else [0] * 9)


def test_shorter_last_panels(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors that the panel before has are left out, for borders, images, groups and blocks."""

    def choose(product: WindowedProduct, target: Target, *, is_packed: bool = False) -> Tile:
        found = tile._tiles(product, target, is_packed=is_packed, is_half=False)
        return min((each for each in found if each.left_out), key=lambda each: each.cycles)

    monkeypatch.setattr(tiled_product, "choose_tile", choose)
    channels = 12 * target.lanes(Scalar.FLOAT32.size_bytes) + 3
    cases = [
        windows((1, 1, 7, 50), (channels, 1, 1, 50)),
        windows((1, 6, 23, 10), (channels, 3, 3, 10), pad=1),
        windows((3, 4, 4, 5), (channels, 1, 1, 5)),
        windows((2, 5, 7, 18), (2 * channels, 3, 3, 9), pad=2, stride=2, groups=2),
        narrow_windows((1, 5, 9, 12), (channels, 3, 3, 12), pad=1),
    ]
    check(cases, target)
    for limit in ("_MAX_STREAMED_INPUT_BYTES", "_MAX_STREAMED_WEIGHT_BYTES", "_MAX_RESIDENT_BYTES"):
        monkeypatch.setattr(tiled_product, limit, 0)
    monkeypatch.setattr(tiled_product, "_BLOCK_BYTES", 6000)
    check([windows((3, 6, 7, 13), (channels, 3, 3, 13), pad=1)], target)


def test_large_depthwise_images_are_computed_row_by_row(target: Target) -> None:
    check(
        [
            windows((1, 64, 65, 32), (3, 3, 32), pad=1),
            windows((2, 59, 61, 36), (5, 3, 36), pad=2, stride=2),
        ],
        target,
    )


def test_narrow_groups(target: Target) -> None:
    cases = [
        windows((1, 5, 21, 32), (32, 3, 3, 4), pad=1, groups=8),
        windows((2, 6, 9, 24), (24, 3, 3, 2), pad=1, stride=2, groups=12),
        windows((1, 7, 7, 40), (40, 3, 3, 8), pad=2, dilation=2, groups=5),
        windows((1, 4, 11, 8), (32, 1, 5, 1), groups=8),
        windows((1, 5, 9, 12), (24, 3, 3, 2), pad=1, groups=6),
        windows((1, 4, 6, 16), (16, 1, 1, 2), groups=8),
    ]
    found = [routine.label.startswith("narrow groups") for routine in check(cases, target)]
    assert found == [width < target.lanes(4) for width in (4, 2, 8, 4, 4, 2)]


def test_groups_that_are_not_narrow(target: Target) -> None:
    cases = [
        windows((1, 5, 7, 36), (36, 3, 3, 12), pad=1, groups=3),
        windows((1, 5, 7, 12), (6, 3, 3, 4), pad=1, groups=3),
        windows((1, 5, 7, 32), (64, 3, 3, 16), pad=1, groups=2),
    ]
    assert all(routine.label.startswith("tiles") for routine in check(cases, target))


def test_aliased_inputs(target: Target) -> None:
    routines = check(
        [
            windows((2, 4, 6, 1024), (112, 1, 1, 1024)),
            windows((2, 5, 4, 1024), (112, 1, 1, 1024), stride=2),
        ],
        target,
    )
    assert [routine.scratch_bytes for routine in routines] == [48 * (4096 + 64), 12 * (4096 + 64)]


def test_positions_in_blocks(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each block goes through all panels; the last one is shorter, and one may have two images."""
    for limit in ("_MAX_STREAMED_INPUT_BYTES", "_MAX_STREAMED_WEIGHT_BYTES", "_MAX_RESIDENT_BYTES"):
        monkeypatch.setattr(tiled_product, limit, 0)
    monkeypatch.setattr(tiled_product, "_BLOCK_BYTES", 6000)
    blocks_of, found = tiled_product._blocks, []

    def blocks(product: WindowedProduct) -> int:
        found.append(blocks_of(product))
        return found[-1]

    monkeypatch.setattr(tiled_product, "_blocks", blocks)
    cases = [
        windows((1, 9, 30, 10), (70, 3, 3, 10), pad=1),
        windows((3, 6, 7, 13), (70, 3, 3, 13), pad=1),
        windows((1, 3, 4, 1024), (70, 1, 1, 1024)),
        Cases(5).matrix_product(Scalar.FLOAT16, rows=99),
    ]
    check(cases, target)
    assert all(number > 1 for number in found), found


def narrow_windows(source: Shape, weights: Shape, *, pad: int = 0) -> Case:
    """Returns a convolution of a FLOAT16 image."""
    builder = GraphBuilder()
    image = builder.input(*source, type=Scalar.FLOAT16)
    factors = builder.weights(*weights)
    height, width = (
        length + 2 * pad - taps + 1 for length, taps in zip(source[1:3], weights[1:3], strict=True)
    )
    output = (source[0], height, width, weights[0])
    sums = builder.convolution(image, factors, output=output, padding=((pad, pad), (pad, pad)))
    return finished(builder, sums, f"float16 {source} * {weights}, {pad=}")


def test_images_without_height_or_width(target: Target) -> None:
    """All windows are on their padding."""
    for source, weights in (
        ((1, 0, 5, 8), (70, 3, 3, 8)),
        ((2, 3, 0, 8), (70, 3, 3, 8)),
        ((1, 1, 0, 8), (70, 1, 3, 8)),
    ):
        case = narrow_windows(source, weights, pad=2)
        routine = routine_for(case.kernel, target)
        assert routine is not None
        result, _ = run(routine, case.arrays, target)
        case.assert_equal(result, routine.label)


@pytest.mark.sampled(2)
def test_results_do_not_depend_on_the_division(target: Target) -> None:
    """Threads order work items in another way, and copy the inputs of their own ones only."""
    cases = [
        windows((2, 4, 6, 1024), (112, 1, 1, 1024)),
        windows((2, 5, 4, 1024), (112, 1, 1, 1024), stride=2),
        windows((1, 7, 9, 2048), (700, 1, 1, 2048)),
        windows((3, 6, 5, 60), (210, 3, 3, 60), pad=1),
        windows((2, 9, 31, 96), (3, 3, 96), pad=1),
        windows((1, 64, 65, 32), (3, 3, 32), pad=1, stride=2),
        narrow_windows((2, 9, 10, 24), (70, 3, 3, 24), pad=1),
        narrow_windows((2, 1, 40, 24), (70, 1, 5, 24)),
        narrow_windows((1, 3, 33, 24), (70, 3, 3, 24)),
        narrow_windows((3, 7, 8, 96), (200, 1, 1, 96)),
        *(Cases(seed).matrix_product(Scalar.FLOAT16, rows=None, batch=(2, 3)) for seed in range(4)),
        matrices(150, 160, 197, transposed=(False, False), is_constant=True),
        matrices(150, 160, 197, transposed=(True, False), is_constant=True),
    ]
    for case in cases:
        routine = routine_for(case.kernel, target)
        assert routine is not None
        count = routine.work_items
        whole, _ = run(routine, case.arrays, target, splits=[count])
        case.assert_equal(whole, routine.label)
        for splits in (range(1, count), [count // 3, count // 2], [count - 1]):
            parts, _ = run(routine, case.arrays, target, splits=list(splits) or [count])
            np.testing.assert_array_equal(parts, whole, err_msg=f"{case.label}, {splits}")


def matrices(
    rows: int,
    depth: int,
    columns: int,
    *,
    transposed: tuple[bool, bool],
    is_constant: bool,
    has_function: bool = False,
) -> Case:
    """Returns a product of two matrices."""
    builder = GraphBuilder()
    left = builder.input(*((depth, rows) if transposed[0] else (rows, depth)))
    shape = (depth, columns) if transposed[1] else (columns, depth)
    right = builder.weights(*shape) if is_constant else builder.input(*shape)
    sums = builder.matrix_product(left, right, left_transposed=transposed[0], right_transposed=transposed[1])
    label = f"{left.shape} * {right.shape}, {transposed=} {is_constant=}"
    return finished(builder, sums, label, has_function=has_function)


def test_many_weights(target: Target) -> None:
    combinations = [(False, False), (False, True), (True, False), (True, True)]
    check(
        [
            matrices(33, 520, 197, transposed=transposed, is_constant=is_constant)
            for transposed in combinations
            for is_constant in (False, True)
        ],
        target,
    )


def test_weights_that_are_read_ahead(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    (plain,) = check([windows((1, 3, 9, 40), (70, 1, 1, 40))], target)
    for limit in ("_MIN_AHEAD_WEIGHTS", "_MIN_AHEAD_TERMS", "_MIN_AHEAD_PRODUCTS"):
        monkeypatch.setattr(micro_kernel, limit, 0)
    (ahead,) = check([windows((1, 3, 9, 40), (71, 1, 1, 40))], target)
    assert ahead.text.count("@llvm.prefetch") > plain.text.count("@llvm.prefetch")


def test_weights_stored_in_fewer_bytes(target: Target) -> None:
    cases = []
    for rows, depth, columns in ((1, 300, 97), (1, 1024, 64), (2, 129, 200), (4, 200, 333)):
        for kind in (np.int8, np.float16):
            builder = GraphBuilder()
            left = builder.input(rows, depth)
            weights = builder.weights(columns, depth)
            assert weights.constant is not None
            if kind is np.int8:
                integers = builder.generator.integers(-127, 127, (columns, depth), np.int8, endpoint=True)
                integers[:, depth // 2] = 127
                scales = builder.generator.uniform(1e-3, 1e-2, (columns, 1)).astype(np.float32)
                weights.constant = integers.astype(np.float32) * scales
            else:
                weights.constant = weights.constant.astype(np.float16).astype(np.float32)
            sums = builder.matrix_product(left, weights)
            cases.append(
                finished(builder, sums, f"{rows} rows of {depth}, {columns} columns, {kind.__name__}")
            )
    routines = check(cases, target)
    stored = [routine.arguments[2].type for routine in routines]
    narrow = [Scalar.UINT8, Scalar.FLOAT16] if target.has_fma else [Scalar.FLOAT32, Scalar.FLOAT32]
    assert stored == narrow * 4


def test_few_channels(target: Target) -> None:
    channels = (1, 2, 3, 5, 15, 17, 31, 33)
    for is_constant in (True, False):
        cases = [
            matrices(5, 9, each, transposed=(False, False), is_constant=is_constant) for each in channels
        ]
        check(cases, target)


def test_few_channels_of_windows(target: Target) -> None:
    shapes = [(channels, 3, 3, 8) for channels in (1, 2, 3, 5, 6, 7, 9, 12, 15)]
    routines = check([windows((2, 5, 37, 8), shape, pad=1) for shape in shapes], target)
    if target.lanes(4) >= 16:
        assert "1 x 4 channels" in routines[2].label
        assert "1 x 16 channels" in routines[-1].label


def test_functions_of_sums_are_written_once_for_each_kind_of_tile(target: Target) -> None:
    shapes = [
        ((1, 4, 30, 3), (32, 3, 3, 3)),
        ((2, 7, 7, 12), (40, 3, 3, 12)),
        ((1, 5, 37, 8), (1, 3, 3, 8)),
        ((1, 3, 9, 40), (70, 3, 3, 40)),
        ((1, 3, 3, 1024), (112, 3, 3, 1024)),
    ]
    plain = [routine_for(windows(*shape, pad=1).kernel, target) for shape in shapes]
    routines = check([windows(*shape, pad=1, has_function=True) for shape in shapes], target)
    for routine, other in zip(routines, plain, strict=True):
        assert other is not None
        assert other.label == routine.label
        assert routine.scratch_bytes > other.scratch_bytes
        # A function has some twenty instructions, for each of 16 to 30 vectors of a tile.
        assert len(routine.text) < 2 * len(other.text)
    check([matrices(33, 50, 97, transposed=(False, True), is_constant=False, has_function=True)], target)


def test_an_empty_range_writes_nothing(target: Target) -> None:
    case = windows((1, 6, 5, 4), (8, 3, 3, 4), pad=1)
    (routine,) = check([case], target)
    empty = Routine(
        text=routine.text,
        arguments=routine.arguments,
        work_items=0,
        cost_ns=0.0,
        declarations=routine.declarations,
    )
    result, _ = run(empty, case.arrays, target)
    assert (result == np.float32(0x55)).all()


def test_empty_products_use_the_generic_kernel(target: Target) -> None:
    for rows, depth in ((0, 3), (3, 0)):
        builder = GraphBuilder()
        sums = builder.matrix_product(builder.input(rows, depth), builder.input(4, depth))
        (kernel,) = fuse(builder.finish(sums)).kernels
        assert routine_for(kernel, target) is None


def test_kernels_on_different_memory_have_the_same_text(target: Target) -> None:
    texts = set()
    for _ in range(2):
        routine = routine_for(windows((1, 6, 5, 4), (8, 3, 3, 4), pad=1).kernel, target)
        assert routine is not None
        assert math.isfinite(routine.cost_ns)
        assert routine.cost_ns > 0
        texts.add(routine.text)
    assert len(texts) == 1
