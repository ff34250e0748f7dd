import numpy as np
import pytest

from neurald.service.tensors.anchors import grid, mediapipe_anchors, ssd_anchors

pytestmark = pytest.mark.quick


def test_anchors_of_ssd_are_those_that_files_of_it_have() -> None:
    """The expected ones are those of the file of SSD MobileNet v1, of 300 x 300 pixels."""
    found = ssd_anchors((300, 300), 1917)
    assert found is not None
    step = 0.006453060545027256  # They are stored in 8 bits.
    for place, expected in (
        (0, (0.0258, 0.0258, 0.0968, 0.0968)),
        (1, (0.0258, 0.0258, 0.1420, 0.2839)),
        (2, (0.0258, 0.0258, 0.2839, 0.1420)),
        (3, (0.0258, 0.0774, 0.0968, 0.0968)),
        (1083, (0.0516, 0.0516, 0.3485, 0.3485)),
        (1086, (0.0516, 0.0516, 0.2000, 0.6066)),
        (1088, (0.0516, 0.0516, 0.4194, 0.4194)),
        (1089, (0.0516, 0.1484, 0.3485, 0.3485)),
    ):
        np.testing.assert_allclose(found[place], expected, atol=step / 2)
    assert ssd_anchors((320, 320), 2034) is not None
    assert ssd_anchors((320, 320), 1917) is None


@pytest.mark.parametrize(
    ("side", "count", "strides"),
    [
        (128, 896, "8, 16, 16, 16"),
        (192, 2304, "4"),
        (192, 2016, "8, 16, 16, 16"),
        (224, 2254, "8, 16, 32, 32, 32"),
        (256, 2944, "8, 16, 32, 32, 32"),
        (256, 896, "16, 32, 32, 32"),
    ],
)
def test_anchors_of_mediapipe(side: int, count: int, strides: str) -> None:
    found = mediapipe_anchors((side, side), count)
    assert found is not None
    centers, names = found
    assert names == strides
    assert centers.shape == (count, 2)
    first = int(strides.split(",")[0])
    assert centers[0].tolist() == pytest.approx([first / side / 2] * 2)
    assert mediapipe_anchors((side, side), count + 1) is None


def test_cells_go_row_by_row() -> None:
    found = grid((16, 32), 8)
    assert found.shape == (8, 2)
    assert found[:2].tolist() == [[0.25, 0.125], [0.25, 0.375]]
