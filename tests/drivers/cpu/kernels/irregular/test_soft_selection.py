"""Kernels that select boxes of each class and lower the scores of others give the reference's."""

import numpy as np
import pytest
from support.cpu.procedures import TARGETS, Case, case_of, expect_same

from neurald.drivers.compiler.analysis.interpreter import Array
from neurald.drivers.compiler.ir.algorithm import SoftSelection
from neurald.drivers.cpu.target.target import Target
from neurald.hal.operations.detection.boxes import BoxSelectionRule, SuppressionKernel

generator = np.random.default_rng(9)
#: Rows, classes, images and the limit: one of everything, runs of several lengths, no limit.
SHAPES = ((1, 2, 1, None), (12, 4, 3, 2), (40, 3, 1, 7), (30, 2, 9, None), (64, 5, 2, 1), (50, 9, 2, 20))


def _case(shape: tuple[int, int, int, int | None], kernel: SuppressionKernel, least: float) -> Case:
    rows, classes, images, limit = shape
    corners = generator.integers(0, 12, (rows, classes, 4)).astype(np.float32)
    corners[..., 2:] += corners[..., :2]
    scores = (generator.integers(-4, 20, (rows, classes)) / 16).astype(np.float32)
    if rows > 9:
        corners[3] = corners[2]  # equal
        corners[5, :, 2:] = corners[5, :, :2]  # without area
        corners[6, :, 2:] = np.inf
        scores[7], scores[8] = np.nan, np.inf
    rule = BoxSelectionRule(
        kernel=kernel, limit=limit, score_limit=-0.1, least=least, iou_limit=0.3, sigma=0.4
    )
    selection = SoftSelection(rule=rule)
    owners = np.sort(generator.integers(0, images, rows)).astype(np.int32)
    # Runs of equal images are images of their own.
    owners[-1:] = 0
    length = 3 * selection.bound(rows, classes) + 1
    return case_of(selection, corners, scores, owners, output=(length,))


def _compare(result: Array, expected: Array) -> None:
    bound, count = len(result) // 3, expected[-1]
    assert result[-1] == count
    for part in range(2):
        found, wanted = (each[part * bound :][:count] for each in (result, expected))
        np.testing.assert_array_equal(found, wanted)
    scores, lowered = (each[2 * bound :][:count].view(np.float32) for each in (result, expected))
    np.testing.assert_allclose(scores, lowered, rtol=1e-5)


@pytest.mark.parametrize("least", [0.05, -1.0])
@pytest.mark.parametrize("kernel", list(SuppressionKernel), ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("target", list(TARGETS.values()), ids=lambda target: target.name)
def test_boxes(target: Target, kernel: SuppressionKernel, least: float) -> None:
    expect_same([_case(shape, kernel, least) for shape in SHAPES], target, _compare)
