"""Compares the latencies of two runs, with confidence intervals.

The intervals are those of the ratio of a statistic, found by resampling blocks of neighbouring
runs, since latencies of neighbouring runs depend on each other.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from neurald.hal.decoding import converted
from neurald.hal.errors import BadData
from neurald.hal.process.files.bounded_read import read_at_most
from neurald.hal.records import DECODE_ERRORS
from neurald.service.benchmark.durations import milliseconds
from neurald.service.tensors.files import open_regular

Array = np.ndarray[Any, np.dtype[Any]]

_RESAMPLES = 2000
_CONFIDENCE = 0.95
#: Processes that run the same differ by this much, as memory lies elsewhere in each, and clocks
#: change.
_SAME = 0.02
#: An interval that reaches from 1 to farther than this does not say whether the runs differ.
_UNCLEAR = 0.1
#: Share of the time in which programs waited for a processor, from which runs count as disturbed.
_DISTURBED = 0.1
#: Maximum size in bytes of a file with an earlier run.
_MAX_BYTES = 1 << 28

_Latencies = Annotated[list[Annotated[float, msgspec.Meta(gt=0)]], msgspec.Meta(min_length=1)]

_STATISTICS: Mapping[str, Callable[[Array], Array]] = {
    "median": lambda rows: np.median(rows, axis=-1),
    "mean": lambda rows: rows.mean(axis=-1),
    "p90": lambda rows: np.percentile(rows, 90, axis=-1),
    "p99": lambda rows: np.percentile(rows, 99, axis=-1),
}


def read_run(path: Path) -> dict[str, Any]:
    """Reads the JSON document of an earlier run.

    Raises:
        BadData: the file is not such a document.
    """
    with open_regular(path) as file:
        content = read_at_most(file, _MAX_BYTES)
    if len(content) > _MAX_BYTES:
        raise BadData(f"{path} is larger than {_MAX_BYTES} bytes")
    try:
        document = msgspec.json.decode(content)
    except DECODE_ERRORS as error:
        raise BadData(f"{path} is not a document of `neurald benchmark --json`: {error}") from None
    latencies_of(document, str(path))
    found: dict[str, Any] = document
    return found


def latencies_of(document: Any, name: str) -> list[float]:
    """Returns the latencies of a run in ms.

    Raises:
        BadData: the document has none.
    """
    found = document.get("latencies_ms") if isinstance(document, dict) else None
    try:
        return _checked_latencies(found)
    except (msgspec.ValidationError, OverflowError):
        raise BadData(
            f"{name} has no latencies; a document of `neurald benchmark --json` is expected"
        ) from None


def _checked_latencies(found: Any) -> list[float]:
    latencies = converted(found, _Latencies)
    if not all(map(math.isfinite, latencies)):
        raise OverflowError
    return latencies


def compare_runs(before: Sequence[float], after: Sequence[float]) -> list[dict[str, Any]]:
    """Compares two runs.

    Args:
        before, after: latencies in ms.

    Returns:
        For each statistic: its values, the ratio after / before with its interval of confidence,
        and the verdict `faster`, `slower`, `same`, which means a ratio that may be 1, or differs
        from it by less than two processes that run the same, or `unclear`, which means that the
        ratio may be 1 or far from it.
    """
    rng = np.random.default_rng(0)
    resampled = [_resampled(np.asarray(each, np.float64), rng) for each in (before, after)]
    rows = []
    for name, statistic in _STATISTICS.items():
        first, second = (float(statistic(np.asarray(each, np.float64))) for each in (before, after))
        ratios = statistic(resampled[1]) / statistic(resampled[0])
        tail = 50 * (1 - _CONFIDENCE)
        low, high = (float(each) for each in np.percentile(ratios, (tail, 100 - tail)))
        rows.append(
            {
                "statistic": name,
                "before_ms": first,
                "after_ms": second,
                "ratio": second / first,
                "low": low,
                "high": high,
                "verdict": _verdict(low, high),
            }
        )
    return rows


def _verdict(low: float, high: float) -> str:
    """Returns what the interval of a ratio says."""
    if high * (1 + _SAME) < 1:
        return "faster"
    if low > 1 + _SAME:
        return "slower"
    return "same" if low * (1 + _UNCLEAR) >= 1 and high <= 1 + _UNCLEAR else "unclear"


def disturbance(document: Mapping[str, Any], name: str) -> str:
    """Returns a note if other programs have disturbed a run; empty otherwise.

    Args:
        document: of the run; those of earlier versions do not tell.
        name: of the run.
    """
    waiting = document.get("waiting")
    if not isinstance(waiting, int | float) or not waiting > _DISTURBED:
        return ""
    return (
        f"programs waited for a processor in {100 * min(waiting, 1):.0f} % of the time of {name}, so its latencies "
        "may be too long; measure again when the machine does nothing else"
    )


def _resampled(latencies: Array, rng: np.random.Generator) -> Array:
    """Returns rows of as many latencies, drawn in blocks of neighbours, at most 1,000."""
    if len(latencies) > 1000:
        latencies = latencies[np.linspace(0, len(latencies) - 1, 1000).astype(np.int64)]
    count = len(latencies)
    length = max(1, math.isqrt(count) // 2)
    blocks = -(-count // length)
    starts = rng.integers(0, count, (_RESAMPLES, blocks, 1))
    places = (starts + np.arange(length)) % count
    found: Array = latencies[places.reshape(_RESAMPLES, -1)[:, :count]]
    return found


def comparison_rows(found: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Returns the rows of a table: statistic, before, after, ratio, interval, verdict."""
    return [
        (
            each["statistic"],
            milliseconds(each["before_ms"]),
            milliseconds(each["after_ms"]),
            f"{each['ratio']:.3f}",
            f"{each['low']:.3f} to {each['high']:.3f}",
            each["verdict"],
        )
        for each in found
    ]
