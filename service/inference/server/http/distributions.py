"""Metrics of the distributions of latencies, under the names that Triton uses."""

from collections.abc import Iterator, Sequence
from typing import Final

from neurald.hal.accounting.exposition import Metric, Sample
from neurald.service.inference.models.served_version import ServedVersion
from neurald.service.inference.models.statistics.statistics import MEASURED, Latencies, Statistics
from neurald.service.inference.repository.model_config import HISTOGRAM_FAMILY

_DESCRIPTIONS: Final = {
    "request": "Time of requests of the last minute",
    "queue": "Time in queues in the last minute",
    "compute_input": "Time to read inputs in the last minute",
    "compute_infer": "Time to run models in the last minute",
    "compute_output": "Time to write outputs in the last minute",
}


def distribution_metrics(versions: Sequence[ServedVersion]) -> Iterator[Metric]:
    """Yields the metrics of the distributions that are measured."""
    measured = [
        ({"model": each.name, "version": str(each.version)}, each.statistics, each.statistics.latencies)
        for each in versions
        if each.statistics.latencies is not None
    ]
    histograms: list[Sample] = []
    summaries: dict[str, list[Sample]] = {name: [] for name in MEASURED}
    for labels, statistics, latencies in measured:
        # A request that ends meanwhile would be in a part of the numbers.
        with statistics.lock:
            histograms += _histogram(labels, latencies)
            for name in latencies.quantiles:
                summaries[name] += _summary(labels, statistics, latencies, name)
    if histograms:
        yield Metric(
            name=HISTOGRAM_FAMILY,
            kind="histogram",
            description="Time of requests until they have an answer",
            samples=histograms,
        )
    for name, samples in summaries.items():
        if samples:
            yield Metric(
                name=f"nv_inference_{name}_summary_us",
                kind="summary",
                description=_DESCRIPTIONS[name],
                samples=samples,
            )


def _histogram(labels: dict[str, str], latencies: Latencies) -> Iterator[Sample]:
    histogram = latencies.histogram
    if histogram is None:
        return
    counts = histogram.cumulative()
    yield Sample(labels, counts[-1], "_count")
    yield Sample(labels, histogram.total_ms, "_sum")
    names = [*(f"{each:g}" for each in histogram.bounds_ms), "+Inf"]
    for name, count in zip(names, counts, strict=True):
        yield Sample({**labels, "le": name}, count, "_bucket")


def _summary(
    labels: dict[str, str], statistics: Statistics, latencies: Latencies, name: str
) -> Iterator[Sample]:
    total = statistics.success if name == "request" else getattr(statistics, name)
    yield Sample(labels, total.count, "_count")
    yield Sample(labels, total.ns // 1000, "_sum")
    quantiles = latencies.measured.quantiles
    for quantile, ns in zip(quantiles, latencies.quantiles[name].of(quantiles), strict=True):
        yield Sample({**labels, "quantile": f"{quantile:g}"}, round(ns / 1000, 1))
