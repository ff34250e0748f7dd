"""Winograd convolutions are correct within rounding, and are used where they are faster."""

import numpy as np
import pytest
from support.compiler.contractions import Case
from support.cpu.float_kernels import TARGETS, check, windows
from support.cpu.native import Array, run
from support.sweeps import sweep

from neurald.drivers.compiler.ir.graph import Convolution
from neurald.drivers.cpu.kernels.gemm import winograd
from neurald.drivers.cpu.kernels.select import routine_for
from neurald.drivers.cpu.target.target import Target

pytestmark = pytest.mark.parametrize("target", list(TARGETS.values()), ids=lambda target: target.name)


def is_used(case: Case, target: Target) -> bool:
    routine = routine_for(case.kernel, target)
    assert routine is not None
    return routine.label.startswith("Winograd")


def test_results(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks various numbers of images, rows, columns and vectors of channels, and paddings."""
    monkeypatch.setattr(winograd, "_MAX_RELATIVE_COST", float("inf"))
    lanes = target.lanes(4)
    cases = [
        windows((1, 8, 8, lanes), (2 * lanes, 3, 3, lanes), pad=1),
        windows((2, 7, 9, 2 * lanes), (3 * lanes, 3, 3, 2 * lanes), pad=1),
        windows((1, 5, 70, lanes), (lanes, 3, 3, lanes)),
        windows((1, 3, 3, lanes), (5 * lanes, 3, 3, lanes), pad=2),
        windows((3, 30, 30, lanes), (2 * lanes, 3, 3, lanes), pad=1),
        windows((1, 14, 14, 4 * lanes), (4 * lanes, 3, 3, 4 * lanes), pad=1),
        windows((1, 2, 1, lanes), (7 * lanes, 3, 3, lanes), pad=1),
    ]
    for routine in check(cases, target):
        assert routine.label.startswith("Winograd")


def test_results_do_not_depend_on_the_division(target: Target) -> None:
    """Results are equal bit for bit, so they do not depend on the number of threads."""
    lanes = target.lanes(4)
    case = windows((1, 27, 27, 8 * lanes), (8 * lanes, 3, 3, 8 * lanes), pad=1)
    routine = routine_for(case.kernel, target)
    assert routine is not None
    assert routine.label.startswith("Winograd")
    assert routine.work_items >= 4
    whole, _ = run(routine, case.arrays, target, splits=[routine.work_items])
    parts, _ = run(routine, case.arrays, target, splits=range(1, routine.work_items))
    np.testing.assert_array_equal(whole, parts)


def test_when_it_is_used(target: Target) -> None:
    lanes = target.lanes(4)
    many = 8 * lanes
    assert is_used(windows((1, 28, 28, many), (many, 3, 3, many), pad=1), target)
    others = [
        windows((1, 28, 28, many), (many, 3, 3, many), pad=1, stride=2),
        windows((1, 28, 28, many), (many, 3, 3, many), pad=2, dilation=2),
        windows((1, 28, 28, many), (many, 5, 5, many), pad=2),
        windows((1, 28, 28, many + 1), (many, 3, 3, many + 1), pad=1),
        windows((1, 28, 28, many), (many + 1, 3, 3, many), pad=1),
        windows((1, 3, 3, many), (many, 3, 3, many)),
    ]
    assert [case.label for case in others if is_used(case, target)] == []


def _summed(image: Array, weights: Array, bias: Array, pad: int) -> Array:
    """Returns a convolution with its bias and limit, term by term."""
    padded = np.pad(image.astype(np.float64), ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    height, width = (length - 2 for length in padded.shape[1:3])
    total = np.zeros((image.shape[0], height, width, weights.shape[0]))
    for row, column in np.ndindex(3, 3):
        pixels = padded[:, row : row + height, column : column + width, None, :]
        total += (pixels * weights[:, row, column].astype(np.float64)).sum(-1)
    return np.asarray(np.maximum(total + bias, 0))


@sweep("special", [(np.inf,), (-np.inf,), (np.nan,), (np.inf, -np.inf, np.nan), (3e38, -3e38, 1e38)])
def test_special_numbers(target: Target, special: tuple[float, ...]) -> None:
    """Sums of the pixels of a window, without those beside it, and with weights of 0."""
    lanes = target.lanes(4)
    for shape, channels, pad in (((2, 7, 9, lanes), 3 * lanes, 1), ((1, 12, 70, lanes), lanes, 0)):
        case = windows(shape, (channels, 3, 3, lanes), pad=pad)
        node = case.kernel.contraction
        assert isinstance(node, Convolution)
        weights = node.weights.constant
        assert weights is not None
        rng = np.random.default_rng(len(special))
        weights[rng.random(weights.shape) < 0.3] = 0
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(winograd, "_MAX_RELATIVE_COST", float("inf"))
            routine = routine_for(case.kernel, target)
        assert routine is not None
        assert routine.label.startswith("Winograd")
        ((source, image),) = case.arrays.items()
        image = np.where(rng.random(image.shape) < 0.02, rng.choice(special, image.shape), image)
        result, _ = run(routine, {source: image.astype(np.float32)}, target)
        bias = next(each.constant for each in routine.arguments if each.shape == (channels,))
        assert bias is not None
        with np.errstate(all="ignore"):
            expected = _summed(image.astype(np.float32), weights, bias, pad)
            is_large = np.abs(expected) > 1e37
        if np.isfinite(special).all():
            # Results that a large pixel enters have its rounding errors, and may be infinite.
            scale = _summed(np.abs(image), np.ones_like(weights), bias, pad)
            is_sure = scale < 1e37
            assert np.isfinite(result[is_sure]).all()
            np.testing.assert_allclose(result[is_sure], expected[is_sure], rtol=1e-4, atol=1e-4)
            assert is_large.any()
        else:
            np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
            assert not np.isfinite(expected).all()


def test_weights_that_are_not_finite(target: Target) -> None:
    """Infinite ones, and those whose sums are."""
    many = 8 * target.lanes(4)
    for special in (np.inf, np.nan, 3e38):
        case = windows((1, 28, 28, many), (many, 3, 3, many), pad=1)
        node = case.kernel.contraction
        assert isinstance(node, Convolution)
        assert is_used(case, target)
        assert node.weights.constant is not None
        node.weights.constant[3, :, :, 5] = special
        assert not is_used(case, target)


def test_weights_that_would_become_too_large(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    many = 8 * target.lanes(4)
    case = windows((1, 28, 28, many), (many, 3, 3, many), pad=1)
    monkeypatch.setattr(winograd, "_MAX_WEIGHT_BYTES", 16 * many * many * 4 - 1)
    assert not is_used(case, target)


def test_weights(target: Target) -> None:
    """An image with a single pixel of 1 reproduces the window."""
    lanes = target.lanes(4)
    case = windows((1, 16, 16, 8 * lanes), (8 * lanes, 3, 3, 8 * lanes), pad=1)
    node = case.kernel.contraction
    assert isinstance(node, Convolution)
    routine = winograd.routine(case.kernel, node, target)
    assert routine is not None
    ((source, image),) = case.arrays.items()
    image = np.zeros_like(image)
    image[0, 6, 9, 3] = 1
    result, _ = run(routine, {source: image}, target)
    around = result[0, 5:8, 8:11].copy()
    result[0, 5:8, 8:11] = result[0, 0, 0]
    assert (result == result[0, 0, 0]).all()
    assert node.weights.constant is not None
    window = node.weights.constant[:, ::-1, ::-1, 3].transpose(1, 2, 0)
    bias = next(value.constant for value in routine.arguments if value.shape == (8 * lanes,))
    np.testing.assert_allclose(around, np.maximum(window + bias, 0), rtol=1e-6, atol=1e-6)
