"""Products of bfloat16 parts in tile registers have the precision of relaxed models.

On processors without tile registers, functions take the place of their instructions.
"""

import numpy as np
import pytest
from support.compiler.contractions import Case
from support.cpu.emulated_tiles import emulated, with_emulated_tiles
from support.cpu.float_kernels import windows
from support.cpu.native import RUNNABLE, Array, run
from support.sweeps import sweep

from neurald.drivers.compiler.ir.graph import Convolution
from neurald.drivers.cpu.kernels.common.convolution import product_of
from neurald.drivers.cpu.kernels.gemm.split import product as split_product
from neurald.drivers.cpu.kernels.gemm.split.plan import plan_of
from neurald.drivers.cpu.kernels.select import routine_for
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import TARGETS, runs_here
from neurald.hal.records import replace

AMX = TARGETS["amx"]
HAS_TILES = runs_here(AMX)
TARGET = replace(AMX if HAS_TILES else emulated(RUNNABLE[0]), is_relaxed=True)

#: Source, weights, stride, dilation and padding.
WINDOWS = [
    ((1, 7, 7, 32), (32, 1, 1, 32), 1, 1, 0),
    ((1, 7, 7, 24), (40, 1, 1, 24), 1, 1, 0),
    ((2, 6, 6, 32), (33, 3, 3, 32), 1, 1, 1),
    ((1, 11, 11, 32), (40, 3, 3, 32), 2, 1, 1),
    ((1, 13, 14, 24), (32, 3, 3, 24), 2, 1, 1),
    ((1, 4, 5, 512), (16, 1, 1, 512), 1, 1, 0),
    ((1, 3, 5, 512), (16, 2, 2, 512), 1, 1, 1),
    ((1, 10, 10, 64), (32, 1, 1, 64), 2, 1, 0),
    ((1, 3, 40, 16), (16, 3, 3, 16), 1, 1, 1),
    ((1, 7, 7, 32), (32, 3, 3, 32), 1, 2, 2),
    ((1, 10, 3, 48), (48, 3, 3, 48), 1, 1, 1),
]


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uses parts also where they are not expected to be faster."""
    monkeypatch.setattr(split_product, "_MAX_RELATIVE_COST", float("inf"))


def routine_of(case: Case) -> Routine:
    routine = routine_for(case.kernel, TARGET)
    assert routine is not None
    assert routine.label.startswith("2 bfloat16 parts")
    return routine if HAS_TILES else with_emulated_tiles(routine)


def results(case: Case, arrays: Array | None = None, splits: tuple[int, ...] = ()) -> Array:
    """Computes a case, with other elements of its input if they are given."""
    inputs = dict(case.arrays)
    if arrays is not None:
        inputs = dict.fromkeys(inputs, arrays)
    found, status = run(routine_of(case), inputs, TARGET, splits=splits)
    assert not status
    return found


@sweep("number", range(len(WINDOWS)))
def test_windows(number: int) -> None:
    """Results have more than the 11 bits of float16, and do not depend on their division."""
    source, weights, stride, dilation, pad = WINDOWS[number]
    case = windows(source, weights, stride=stride, dilation=dilation, pad=pad)
    items = routine_of(case).work_items
    found = results(case, splits=(items // 3, items // 2 + 1))
    assert np.abs(found - case.expected).max() < 2.0**-14 * np.abs(case.expected).max()
    np.testing.assert_array_equal(found, results(case, splits=(items,)))


def test_other_models_use_vectors() -> None:
    case = windows((1, 9, 9, 32), (32, 3, 3, 32), pad=1)
    routine = routine_for(case.kernel, replace(TARGET, is_relaxed=False))
    assert routine is not None
    assert "bfloat16" not in routine.label


def test_infinities_and_nan_reach_the_same_results_as_in_float32() -> None:
    case = windows((1, 5, 5, 32), (32, 1, 1, 32))
    arrays = np.zeros((1, 5, 5, 32), np.float32)
    arrays[0, 0, 0, 3], arrays[0, 1, 0, 4], arrays[0, 2, 0, 5] = np.inf, -np.inf, np.nan
    node = case.kernel.contraction
    assert isinstance(node, Convolution)
    weights = node.weights.constant
    assert weights is not None
    found = results(case, arrays).reshape(25, 32)
    for position, term, sign in ((0, 3, 1), (5, 4, -1)):
        # A limit of 0 follows.
        positive = sign * weights.reshape(32, 32)[:, term] > 0
        assert np.isposinf(found[position][positive]).all()
        assert not found[position][~positive].any()
    rest = np.delete(found, (0, 5, 10), axis=0)
    assert np.isfinite(rest).all()


def test_numbers_of_any_size() -> None:
    case = windows((1, 5, 5, 32), (32, 1, 1, 32))
    plain = case.arrays[next(iter(case.arrays))]
    for scale in (1e30, 1e-30):
        scaled = (plain * np.float32(scale)).astype(np.float32)
        exact = windows_of(case, scaled)
        found = results(case, scaled)
        np.testing.assert_allclose(found, exact, rtol=1e-3, atol=2.0**-14 * np.abs(exact).max())


def windows_of(case: Case, source: Array) -> Array:
    """Returns the results of a 1 × 1 convolution with bias and limit in double precision."""
    node = case.kernel.contraction
    assert isinstance(node, Convolution)
    assert node.weights.constant is not None
    (bias,) = (
        each.constant for each in case.kernel.inputs if each.constant is not None and len(each.shape) == 1
    )
    sums = source.astype(np.float64) @ node.weights.constant.reshape(32, 32).T.astype(np.float64)
    found: Array = np.maximum(sums + bias, 0)
    return found


def test_others_use_vectors() -> None:
    """Few positions or channels, odd windows, groups, and weights that cannot be divided."""
    cases = [
        windows((1, 4, 4, 32), (32, 1, 1, 32)),
        windows((1, 9, 9, 32), (12, 1, 1, 32)),
        windows((1, 9, 9, 3), (32, 3, 3, 3), pad=1),
        windows((1, 9, 9, 64), (64, 3, 3, 32), pad=1, groups=2),
    ]
    infinite = windows((1, 9, 9, 32), (32, 1, 1, 32))
    node = infinite.kernel.contraction
    assert isinstance(node, Convolution)
    assert node.weights.constant is not None
    node.weights.constant[0, 0, 0, 0] = np.inf
    for case in (*cases, infinite):
        routine = routine_for(case.kernel, TARGET)
        assert routine is None or "bfloat16" not in routine.label, case.label


def test_tiles_of_a_run_are_equal() -> None:
    """A tile must not have terms beyond a run of a window, which may be infinite."""
    for depth, words in ((32, 16), (24, 12), (16, 8), (72, 12), (30, 15), (34, None), (33, None)):
        node = windows((1, 9, 9, depth), (32, 1, 1, depth)).kernel.contraction
        assert isinstance(node, Convolution)
        plan = plan_of(product_of(node))
        assert (None if plan is None else plan.words) == words, depth
