import numpy as np
import pytest

from neurald.service.tensors.boxes import Boxes, agreement, best_boxes, overlaps

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


def test_overlapping_boxes_of_a_class_are_left_out() -> None:
    found = best_boxes(boxes((0.5, 1), (0.9, 1), (0.7, 2), shift=0.01), 5)
    assert [(each.kind, round(each.score, 3)) for each in found[:2]] == [(1, 0.9), (2, 0.7)]
    assert all(each.score < 0.5 for each in found[2:])


def test_overlaps() -> None:
    others = np.array([[0.2, 0.2, 0.6, 0.6], [0.2, 0.4, 0.6, 0.8], [0.7, 0.7, 0.9, 0.9], [0, 0, 0, 0]])
    np.testing.assert_allclose(overlaps(BOX, others), [1, 1 / 3, 0, 0], atol=1e-6)
