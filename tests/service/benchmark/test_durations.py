import math

import pytest

from neurald.service.benchmark.durations import milliseconds


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (0.0, "0.000"),
        (12.3456, "12.346"),
        (1.0, "1.000"),
        (0.9996, "1.000"),
        (0.25, "0.250"),
        (0.0314159, "0.0314"),
        (0.000796, "0.000796"),
        (0.0000001, "0.000000"),
        (math.inf, "inf"),
        (math.nan, "nan"),
    ],
)
def test_durations_have_three_digits_at_least(duration: float, text: str) -> None:
    assert milliseconds(duration) == text
