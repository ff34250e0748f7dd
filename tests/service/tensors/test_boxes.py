import numpy as np
import pytest

from neurald.service.tensors.boxes import (
    MAX_EXPONENT,
    Boxes,
    agreement,
    are_probabilities,
    best_boxes,
    corners_of,
    exponential,
    overlaps,
    probabilities,
    sigmoid,
)

pytestmark = pytest.mark.quick

BOX = np.array([0.2, 0.2, 0.6, 0.6], np.float32)


def boxes(*rows: tuple[float, int], shift: float = 0.0) -> Boxes:
    """Returns boxes of scores and classes, each moved by `shift` more than the last one."""
    corners = np.stack([BOX + shift * place for place in range(len(rows))])
    scores = np.zeros((len(rows), 3), np.float32)
    for place, (score, kind) in enumerate(rows):
        scores[place, kind] = score
    return Boxes("some", corners, scores)


def test_boxes_for_the_same_thing_agree() -> None:
    same = [(0.9, 1)] * 4
    assert agreement(boxes(*same)) == pytest.approx(1)
    moved = agreement(boxes(*same, shift=0.04))
    assert 0.5 < moved < 0.9
    assert agreement(boxes(*same, shift=0.3)) == 0


def test_few_boxes_or_weak_ones_show_nothing() -> None:
    for rows in ([(0.9, 1)] * 2, [(0.9, 0), (0.9, 1), (0.9, 2)], [(0.05, 1)] * 9):
        assert agreement(boxes(*rows)) == 0
    nothing = Boxes("some", np.zeros((0, 4), np.float32), np.zeros((0, 3), np.float32))
    assert agreement(nothing) == 0


def test_weak_boxes_do_not_count_beside_strong_ones() -> None:
    found = boxes(*[(0.9, 1)] * 3, *[(0.2, 1)] * 5)
    found.corners[3:] += 0.1
    assert agreement(found) == pytest.approx(1)


def test_a_box_that_nothing_can_agree_with_does_not_count() -> None:
    assert agreement(boxes(*[(0.9, 1)] * 4, (0.9, 2))) == pytest.approx(1)


def test_no_more_than_the_best_boxes_are_found() -> None:
    found = boxes((0.5, 0), (0.9, 2), shift=0.3)
    assert [(each.kind, round(each.score, 3)) for each in best_boxes(found, 2)] == [(2, 0.9), (0, 0.5)]
    (best,) = best_boxes(found, 1)
    assert best.box == pytest.approx((0.5, 0.5, 0.9, 0.9))


def test_corners_lie_around_centers() -> None:
    corners = corners_of(np.array([[0.5, 0.4]]), np.array([[0.2, 0.6]]))
    np.testing.assert_allclose(corners, [[0.4, 0.1, 0.6, 0.7]])


def test_functions_of_large_values_do_not_overflow() -> None:
    with np.errstate(all="raise"):
        powers = exponential(np.array([-1.0, 0.0, 1.0, 1e4]))
        shares = sigmoid(np.array([-1e4, -1.0, 0.0, 1.0, 1e4]))
    assert powers.dtype == shares.dtype == np.float32
    np.testing.assert_allclose(powers, np.exp([-1.0, 0.0, 1.0, MAX_EXPONENT]), rtol=1e-6)
    half = 1 / (1 + np.exp(-1.0))
    np.testing.assert_allclose(shares, [0, 1 - half, 0.5, half, 1], atol=1e-6)


@pytest.mark.parametrize(
    ("values", "expected"),
    [([], True), ([0, 1], True), ([0.5], True), ([-0.1, 0.5], False), ([0.5, 1.1], False)],
)
def test_probabilities_are_left_as_they_are(values: list[float], *, expected: bool) -> None:
    array = np.array(values, np.float32)
    assert are_probabilities(array) is expected
    np.testing.assert_array_equal(probabilities(array), array if expected else sigmoid(array))


def test_overlapping_boxes_of_a_class_are_left_out() -> None:
    found = best_boxes(boxes((0.5, 1), (0.9, 1), (0.7, 2), shift=0.01), 5)
    assert [(each.kind, round(each.score, 3)) for each in found[:2]] == [(1, 0.9), (2, 0.7)]
    assert all(each.score < 0.5 for each in found[2:])


def test_overlaps() -> None:
    others = np.array([[0.2, 0.2, 0.6, 0.6], [0.2, 0.4, 0.6, 0.8], [0.7, 0.7, 0.9, 0.9], [0, 0, 0, 0]])
    np.testing.assert_allclose(overlaps(BOX, others), [1, 1 / 3, 0, 0], atol=1e-6)
    wide = np.array([0.0, 0.0, 1.0, 3.0])
    others = np.array([[0, 0, 2, 1], [0.5, 1, 1.5, 2], [1, 3, 0, 0], [0, 0, 0, 0]])
    np.testing.assert_allclose(overlaps(wide, others), [1 / 4, 0.5 / 3.5, 0, 0], atol=1e-6)
    # Corners in the wrong order enclose nothing, and neither does a box without an extent.
    np.testing.assert_array_equal(overlaps(others[3], others[2:]), [0, 0])
