import math

import numpy as np
import pytest

from neurald.service.benchmark.accuracy import accuracy_rows, differences


def test_differences_are_measured() -> None:
    found = [np.array([1.0, 2.0, 4.0]), np.array([1, 2], np.uint8), np.array([True, False]), np.zeros((2, 2))]
    expected = [np.array([1.0, 2.0, 3.0]), np.array([3, 2], np.uint8), np.array([True, True]), np.zeros(4)]
    first, second, third, fourth = differences(["a", "b", "c", "d"], found, expected)
    assert first["max_abs"] == 1
    assert first["rms"] == math.sqrt(1 / 3)
    assert first["snr_db"] == pytest.approx(10 * math.log10(14))
    assert second["max_abs"] == 2
    assert (second["differing"], third["differing"]) == (0.5, 0.5)
    assert fourth["reason"] == "shape [2, 2] instead of [4]"
    assert accuracy_rows([first])[0] == ("a", "1", "0.5774", "11.5 dB", "33.33 %")


def test_what_is_not_finite() -> None:
    values = np.array([np.nan, np.inf, -np.inf, 1.0])
    (same,) = differences(["a"], [values], [values])
    assert (same["max_abs"], same["differing"], same["snr_db"]) == (0, 0, None)
    (other,) = differences(["a"], [values], [np.array([np.nan, 1.0, np.inf, 1.0])])
    assert (other["max_abs"], other["differing"]) == (math.inf, 0.5)
    (nothing,) = differences(["a"], [np.zeros(0)], [np.zeros(0)])
    assert nothing["max_abs"] == 0
