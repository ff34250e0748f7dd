"""Suppression kernels select the reference's boxes."""

import numpy as np
import pytest
from support.cpu.procedures import TARGETS, Case, case_of, expect_same

from neurald.drivers.compiler.analysis.interpreter import Array
from neurald.drivers.compiler.ir.algorithm import GreedySelection, Suppression
from neurald.drivers.cpu.target.target import Target

generator = np.random.default_rng(7)

pytestmark = pytest.mark.parametrize("target", list(TARGETS.values()), ids=lambda target: target.name)


def _case(count: int, limit: int, sigma: float, *, least: float = 0.1, spread: float = 0.0) -> Case:
    boxes, scores = generator.random((count, 4), np.float32), generator.integers(0, 9, count)
    boxes += np.tile(generator.random((count, 2), np.float32) * np.float32(spread), 2)
    if count > 9:
        boxes[1] = boxes[0]  # equal
        boxes[3, 2:] = boxes[3, :2]  # without area
        boxes[5, 1] = np.nan
    limits = (np.array([number], np.float32) for number in (0.4, least, sigma))
    given = (scores / 8).astype(np.float32)
    if count > 9:
        given[7] = np.nan
    return case_of(Suppression(limit=limit), boxes, given, *limits, output=(2 * limit + 1,))


def _compare(result: Array, expected: Array) -> None:
    limit = len(result) // 2
    np.testing.assert_array_equal(result[:limit], expected[:limit])
    np.testing.assert_array_equal(result[-1], expected[-1])
    scores, wanted = (each[limit:-1].view(np.float32) for each in (result, expected))
    np.testing.assert_allclose(scores, wanted, rtol=1e-5)


@pytest.mark.parametrize("sigma", [0.0, 0.3, -1.0])
def test_boxes(sigma: float, target: Target) -> None:
    shapes = ((0, 3), (1, 2), (1, 0), (30, 10), (50, 60), (200, 40))
    cases = [_case(count, limit, sigma) for count, limit in shapes]
    cases.append(_case(20, 20, sigma, least=2.0))  # no candidates
    # Boxes that are compared with several others, few of which they overlap.
    cases += [_case(count, count, sigma, spread=spread) for count in (16, 60, 150) for spread in (3.0, 8.0)]
    expect_same(cases, target, _compare)


def _greedy(images: int, rows: int, count: int, limit: int, *, includes_limit: bool) -> Case:
    corners, scores = generator.random((images, count, 4)), generator.integers(0, 9, (rows, count))
    boxes = corners.astype(np.float32)
    boxes[..., 2:] += boxes[..., :2]
    given = (scores / 8).astype(np.float32)
    if count > 9:
        boxes[:, 1] = boxes[:, 0]  # equal
        boxes[:, 3, 2:] = boxes[:, 3, :2]  # without area
        boxes[:, 5, 1] = np.nan
        boxes[:, 6], boxes[:, 7] = (0, 0, 2, 2), (0, 0, 1, 2)  # overlap by the limit
        given[:, ::4] = np.nan
        given[-1] = np.nan  # no candidates
    selection = GreedySelection(limit=limit, iou_limit=0.5, includes_limit=includes_limit)
    return case_of(selection, boxes, given, output=(rows, limit + 1))


@pytest.mark.parametrize("includes_limit", [False, True])
def test_greedy_selection(target: Target, *, includes_limit: bool) -> None:
    shapes = ((1, 1, 0, 2), (1, 1, 1, 1), (1, 3, 30, 10), (2, 2, 100, 200), (2, 4, 64, 5))
    expect_same([_greedy(*shape, includes_limit=includes_limit) for shape in shapes], target)
