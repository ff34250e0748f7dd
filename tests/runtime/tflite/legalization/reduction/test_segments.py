import numpy as np
from support.models.whole_model import run_references
from support.tflite.operator import Load, fixed, shaped


def test_segments(load: Load) -> None:
    segments = shaped(3, type_="INT32")
    sums = load("SEGMENT_SUM", (shaped(3, 2), segments), shaped(2, 2))
    assert run_references(sums, np.ones((3, 2)), [0, 0, 1])[0].tolist() == [[2, 2], [1, 1]]
    largest = load("UNSORTED_SEGMENT_MAX", (shaped(3), segments, fixed(2, "INT32")), shaped(2))
    assert run_references(largest, [1, 5, 3], [1, 0, 1])[0].tolist() == [5, 3]


def test_bucketize(load: Load) -> None:
    boundaries = np.array([0, 1], np.float32)
    buckets = load(
        "BUCKETIZE", (shaped(3),), shaped(3, type_="INT32"), "BucketizeOptions", Boundaries=boundaries
    )
    assert run_references(buckets, [-1, 0.5, 1])[0].tolist() == [0, 1, 2]
