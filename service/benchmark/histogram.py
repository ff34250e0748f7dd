"""Draws the distribution of latencies in the terminal and as SVG."""

from collections.abc import Sequence
from html import escape
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

#: How many columns a line in the terminal has at most.
MAX_WIDTH: Final = 80

_BINS = 16
#: Bars that can be at most this long only have the begin of their bin beside them.
_MIN_BAR = 8
#: Percentiles of the latencies: the last limit is the first one, or twice the second one if that is
#: less, since few slow runs would leave most bins empty. All slower runs are one bin.
_TAIL, _USUAL = 99.0, 90.0
#: Latencies below this are shown in microseconds.
_SMALL_MS = 0.1
_WIDTH, _HEIGHT, _MARGIN = 720, 320, 48


def bins(latencies_ms: Sequence[float]) -> list[tuple[float, float, int]]:
    """Returns begin, end and number of latencies of equal bins, the slowest runs last."""
    values = np.asarray(latencies_ms, np.float64)
    low, high = float(values.min()), _limit(values)
    if high <= low:
        return [(low, float(values.max()), len(values))]
    counts, edges = np.histogram(values, _BINS, (low, high))
    found = [
        (float(begin), float(end), int(count))
        for begin, end, count in zip(edges, edges[1:], counts, strict=False)
    ]
    slow = int((values > high).sum())
    return [*found, (high, float(values.max()), slow)] if slow else found


def _limit(latencies: Array) -> float:
    """Returns above which latency all runs are drawn alike."""
    tail, usual = np.percentile(latencies, (_TAIL, _USUAL)).tolist()
    return min(float(tail), 2 * float(usual))


def text_histogram(
    latencies_ms: Sequence[float], *, width: int = MAX_WIDTH, plain: bool = False
) -> list[str]:
    """Returns the lines of a histogram.

    Args:
        latencies_ms: one for each run.
        width: how many columns the lines may have, of which at most `MAX_WIDTH` are used. Without
            room for bars of a few columns, the ends of bins are left out, and then the bars.
        plain: uses only ASCII characters.
    """
    found = bins(latencies_ms)
    unit, scale = ("us", 1e3) if found[0][1] < _SMALL_MS else ("ms", 1.0)
    begins = _aligned([f"{begin * scale:.3f}" for begin, _, _ in found])
    ends = _aligned([f"{end * scale:.3f}" for _, end, _ in found])
    counts = _aligned([str(count) for _, _, count in found])
    labels = [
        f"{begin} to {end} {unit} {count} " for begin, end, count in zip(begins, ends, counts, strict=True)
    ]
    if len(labels[0]) + _MIN_BAR > width:
        labels = [f"{begin} {unit} {count} " for begin, count in zip(begins, counts, strict=True)]
    longest = max(0, min(width, MAX_WIDTH) - len(labels[0]))
    most = max(count for _, _, count in found)
    mark = "#" if plain else "█"
    bars = [mark * round(longest * count / most) for _, _, count in found]
    return [f"{label}{bar}".rstrip() for label, bar in zip(labels, bars, strict=True)]


def _aligned(texts: Sequence[str]) -> list[str]:
    """Returns texts of one length, with spaces before the shorter ones."""
    return [text.rjust(max(map(len, texts))) for text in texts]


def svg_histogram(latencies_ms: Sequence[float], title: str) -> str:
    """Draws a histogram above the latencies in the order of the runs, as one SVG document."""
    found = bins(latencies_ms)
    most = max(count for _, _, count in found)
    inner = _WIDTH - 2 * _MARGIN
    width = inner / len(found)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {2 * _HEIGHT}" role="img" '
        f'aria-label="{escape(title, quote=True)}" font-family="sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        "<style>svg{background:#fff;color:#222}.bar,.run{fill:#2a6fb0}"
        "@media(prefers-color-scheme:dark){svg{background:#16181c;color:#ddd}.bar,.run{fill:#7ab4ea}}"
        "text{fill:currentColor}line{stroke:currentColor}</style>",
        f'<text x="{_MARGIN}" y="24" font-size="15">{escape(title)}</text>',
    ]
    floor = _HEIGHT - _MARGIN
    for number, (begin, end, count) in enumerate(found):
        height = (floor - _MARGIN) * count / most
        parts.append(
            f'<rect class="bar" x="{_MARGIN + number * width:.1f}" y="{floor - height:.1f}" '
            f'width="{max(width - 2, 1):.1f}" height="{height:.1f}">'
            f"<title>{begin:.4g} to {end:.4g} ms: {count} runs</title></rect>"
        )
    parts.append(f'<line x1="{_MARGIN}" y1="{floor}" x2="{_WIDTH - _MARGIN}" y2="{floor}"/>')
    for place, value, anchor in (
        (_MARGIN, found[0][0], "start"),
        (_WIDTH - _MARGIN, found[-1][1], "end"),
    ):
        parts.append(f'<text x="{place}" y="{floor + 18}" text-anchor="{anchor}">{value:.4g} ms</text>')
    parts += _runs(latencies_ms)
    return "\n".join([*parts, "</svg>\n"])


def _runs(latencies_ms: Sequence[float]) -> list[str]:
    """Draws a point for each run, for at most 2,000 of them."""
    every = np.asarray(latencies_ms, np.float64)
    chosen = np.linspace(0, len(every) - 1, min(len(every), 2000)).astype(np.int64)
    high = _limit(every) * 1.1
    floor, top = 2 * _HEIGHT - _MARGIN, _HEIGHT + _MARGIN
    inner = _WIDTH - 2 * _MARGIN
    parts = [
        f'<line x1="{_MARGIN}" y1="{floor}" x2="{_WIDTH - _MARGIN}" y2="{floor}"/>',
        f'<text x="{_MARGIN}" y="{floor + 18}">run 1</text>',
        f'<text x="{_WIDTH - _MARGIN}" y="{floor + 18}" text-anchor="end">run {len(every)}</text>',
        f'<text x="{_MARGIN}" y="{top - 8}">{high:.4g} ms and more</text>',
    ]
    for place in chosen.tolist():
        x = _MARGIN + inner * place / max(len(every) - 1, 1)
        y = floor - (floor - top) * min(float(every[place]) / high, 1.0)
        parts.append(f'<circle class="run" cx="{x:.1f}" cy="{y:.1f}" r="1.5"/>')
    return parts
