"""Distributions of latencies against those that NumPy finds."""

import math

import numpy as np
import pytest

from neurald.service.inference.models.statistics.latencies import LatencyHistogram, LatencyQuantiles

QUANTILES = (0.0, 0.5, 0.9, 0.99, 0.999, 1.0)


def test_a_histogram_counts_what_is_up_to_each_bound() -> None:
    histogram = LatencyHistogram((1, 2.5, 10))
    for ms in (0, 1, 1.5, 2.5, 2.6, 10, 10.1, 1e6):
        histogram.add(int(ms * 1e6))
    assert histogram.cumulative() == [2, 4, 6, 8]
    assert histogram.total_ms == pytest.approx(27.7 + 1e6)


def test_without_bounds_all_are_counted() -> None:
    histogram = LatencyHistogram(())
    histogram.add(5)
    assert histogram.cumulative() == [1]


@pytest.mark.parametrize("seed", range(5))
def test_quantiles_are_within_a_hundredth(seed: int) -> None:
    random = np.random.default_rng(seed)
    latencies = random.lognormal(13, 2, 5000).astype(np.int64) + 1
    quantiles = LatencyQuantiles(lambda: 0.0)
    for each in latencies.tolist():
        quantiles.add(each)
    expected = np.quantile(latencies, QUANTILES, method="inverted_cdf")
    np.testing.assert_allclose(quantiles.of(QUANTILES), expected, rtol=0.01)


def test_a_latency_of_nothing_is_short() -> None:
    quantiles = LatencyQuantiles(lambda: 0.0)
    for ns in (0, 1, -5):
        quantiles.add(ns)
    assert max(quantiles.of(QUANTILES)) < 2


def test_quantiles_forget_what_is_older_than_a_minute() -> None:
    now = 100.0
    quantiles = LatencyQuantiles(lambda: now)
    assert all(map(math.isnan, quantiles.of((0.5, 0.9))))
    for second in range(200):
        now = 100.0 + second
        quantiles.add(1_000_000 if second < 100 else 1000)
    (most,) = quantiles.of((1.0,))
    assert most == pytest.approx(1000, rel=0.01)
    now += 61.0
    assert math.isnan(quantiles.of((0.5,))[0])
