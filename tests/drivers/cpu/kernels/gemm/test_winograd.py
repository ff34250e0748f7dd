"""Winograd convolutions are correct within rounding, and are used where they are faster."""

import numpy as np
import pytest
from support.compiler.contractions import Case
from support.cpu.float_kernels import TARGETS, check, windows
from support.cpu.native import run

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
