"""Draws how figures grow with a number, as an SVG document of several panels."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

_COLUMNS = 3
_WIDTH, _HEIGHT = 300, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 38, 12, 34, 40
_HEAD = 56
#: Colours that people with colour vision deficiencies distinguish, and dashes that need no colour.
_STYLES = (
    ("#0072b2", ""),
    ("#d55e00", "6 3"),
    ("#009e73", "2 3"),
    ("#cc79a7", "8 3 2 3"),
    ("#e69f00", "1 2"),
)
_IDEAL = "proportional"


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line of a panel.

    Attributes:
        points: number and figure of each point, by ascending numbers.
    """

    name: str
    points: Sequence[tuple[int, float]]


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A diagram with a logarithmic axis of numbers and an axis of figures.

    Attributes:
        axis: what the numbers count.
    """

    title: str
    axis: str
    lines: Sequence[Line]


def svg_plot(title: str, panels: Sequence[Panel]) -> str:
    """Returns an SVG document.

    The legend has the lines of the panel with most of them. Other lines are labelled where they
    end.
    """
    names = [line.name for line in max((panel.lines for panel in panels), key=len, default=())]
    rows = -(-len(panels) // _COLUMNS)
    width, height = _COLUMNS * _WIDTH, _HEAD + rows * _HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(title, quote=True)}" font-family="sans-serif" font-size="11">',
        f"<title>{escape(title)}</title>",
        "<style>svg{background:#fff;color:#222}text{fill:currentColor}.axis{stroke:currentColor}"
        ".grid{stroke:currentColor;opacity:.15}.ideal{stroke:currentColor;opacity:.45}"
        "@media(prefers-color-scheme:dark){svg{background:#16181c;color:#ddd}}</style>",
        f'<text x="{_LEFT}" y="20" font-size="15">{escape(title)}</text>',
        *_legend(names),
    ]
    for number, panel in enumerate(panels):
        left, top = number % _COLUMNS * _WIDTH, _HEAD + number // _COLUMNS * _HEIGHT
        parts.append(f'<g transform="translate({left} {top})">')
        parts += _panel(panel, names)
        parts.append("</g>")
    return "\n".join([*parts, "</svg>"]) + "\n"


def _stroke(number: int) -> str:
    color, dashes = _STYLES[number % len(_STYLES)]
    return f'stroke="{color}" stroke-width="2" fill="none"' + (
        f' stroke-dasharray="{dashes}"' if dashes else ""
    )


def _legend(names: Sequence[str]) -> Iterator[str]:
    x = _LEFT
    for number, name in enumerate([*names, _IDEAL]):
        style = _stroke(number) if name != _IDEAL else 'class="ideal"'
        yield f'<line x1="{x}" y1="40" x2="{x + 26}" y2="40" {style}/>'
        yield f'<text x="{x + 32}" y="44">{escape(name)}</text>'
        x += 56 + 7 * len(name)


def _panel(panel: Panel, names: Sequence[str]) -> Iterator[str]:
    numbers = sorted({number for line in panel.lines for number, _ in line.points})
    figures = [figure for line in panel.lines for _, figure in line.points]
    if not numbers:
        return
    step = _step(max(figures))
    top_figure = step * math.ceil(max(figures) / step)
    last = max(math.log2(numbers[-1]), 1.0)
    floor, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT

    def x_of(number: float) -> float:
        return _LEFT + (right - _LEFT) * math.log2(number) / last

    def y_of(figure: float) -> float:
        return floor - (floor - _TOP) * figure / top_figure

    yield f'<text x="{_LEFT}" y="20" font-size="13">{escape(panel.title)}</text>'
    for index in range(round(top_figure / step) + 1):
        y = y_of(index * step)
        yield f'<line class="grid" x1="{_LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>'
        yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{index * step:g}</text>'
    for number in numbers:
        yield f'<text x="{x_of(number):.1f}" y="{floor + 16}" text-anchor="middle">{number}</text>'
    yield f'<text x="{right}" y="{floor + 32}" text-anchor="end">{escape(panel.axis)}</text>'
    yield f'<line class="axis" x1="{_LEFT}" y1="{floor}" x2="{right}" y2="{floor}"/>'
    ideal = [number for number in numbers if number <= top_figure]
    points = " ".join(f"{x_of(number):.1f},{y_of(number):.1f}" for number in ideal)
    yield f'<polyline class="ideal" points="{points}" fill="none"/>'
    for line in panel.lines:
        number = names.index(line.name) if line.name in names else len(names)
        places = [(x_of(count), y_of(figure)) for count, figure in line.points]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        yield f'<polyline points="{points}" {_stroke(number)}><title>{escape(line.name)}</title></polyline>'
        if line.name not in names and places:
            x, y = places[-1]
            yield f'<text x="{x:.1f}" y="{y - 8:.1f}" text-anchor="end">{escape(line.name)}</text>'


def _step(most: float) -> float:
    """Returns the distance of grid lines, of which there are at most six."""
    power = 10.0 ** math.floor(math.log10(max(most, 1e-9) / 5))
    return next(power * factor for factor in (1, 2, 5, 10) if most / (power * factor) <= 5)
