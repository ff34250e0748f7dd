"""Renders an explanation as a self-contained page with tables and graphs coloured by device.

The page loads no other resources. Any text may come from a model or a driver, so all of it is
escaped.
"""

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from neurald.runtime.explain.graph_layout import layered_positions
from neurald.runtime.explain.records import (
    INTERPRETER_NAME,
    BoundaryOperand,
    DeviceShare,
    DeviceTransfer,
    OperationExplanation,
    PlacementChange,
    Refusal,
    StepExplanation,
)
from neurald.runtime.model.branches import MAIN

#: One colour per device, distinguishable with most kinds of colour vision (Okabe and Ito). With
#: more devices they are used again.
_COLOURS = ("#9ecae9", "#f2b774", "#8fd1b5", "#f0e68c", "#e3a6c9", "#d3a38f", "#b8b8e6", "#c5d86d")
_INTERPRETED = "#e4e4e4"

_NODE_WIDTH, _NODE_HEIGHT = 188, 34
_COLUMN, _LAYER, _MARGIN = 204, 62, 12

#: Number of characters that fit into a node.
_MAX_LABEL_LENGTH = 27

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
body {{ font: 14px/1.45 system-ui, sans-serif; margin: 2rem; color: #1d1d1d; background: #fff; }}
h1 {{ font-size: 1.4rem; }} h2 {{ font-size: 1.1rem; margin-top: 2rem; }}
table {{ border-collapse: collapse; }}
th, td {{ text-align: left; padding: .2rem .8rem .2rem 0; vertical-align: top; border-bottom: 1px solid #ddd; }}
td.number, th.number {{ text-align: right; font-variant-numeric: tabular-nums; }}
.swatch {{ display: inline-block; width: .9em; height: .9em; border: 1px solid #555; margin-right: .5em; }}
.drawing {{ overflow: auto; max-height: 85vh; border: 1px solid #ddd; }}
svg {{ display: block; }} svg text {{ font: 11px ui-monospace, monospace; }}
svg path {{ fill: none; stroke: #888; }} svg rect {{ stroke: #444; }} svg .crossing {{ stroke: #c0392b; stroke-width: 2; }}
svg .interpreted {{ stroke-dasharray: 5 3; }}
</style>
</head>
<body>
<h1>{title}</h1>
{body}
</body>
</html>
"""


class RenderableExplanation(Protocol):
    """The parts of `neurald.runtime.explain.explanation.Explanation` that the page shows."""

    @property
    def shares(self) -> Sequence[DeviceShare]:
        """The shares of all devices, in their order."""
        ...

    @property
    def operations(self) -> Sequence[OperationExplanation]:
        """The operations of all graphs, main graph first."""
        ...

    @property
    def steps(self) -> Sequence[StepExplanation]:
        """The steps in the order of the plan."""
        ...

    @property
    def transfers(self) -> Sequence[DeviceTransfer]:
        """The transfers between devices."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """Notes on later events."""
        ...

    @property
    def predicted_s(self) -> Mapping[str, float]:
        """What is predicted for the plan and for others, in seconds, by name."""
        ...

    @property
    def changes(self) -> Sequence[PlacementChange]:
        """What a what-if would change."""
        ...

    @property
    def transferred_bytes(self) -> int:
        """Bytes of all transfers whose size is known."""
        ...

    def refusals(self) -> Sequence[Refusal]:
        """Returns what each device rejects, by type and reason."""
        ...


def render_html(explanation: RenderableExplanation, title: str) -> str:
    """Renders the page; see `Explanation.to_html`."""
    colours = {share.device: _COLOURS[n % len(_COLOURS)] for n, share in enumerate(explanation.shares)} | {
        INTERPRETER_NAME: _INTERPRETED
    }
    graphs: dict[int, list[OperationExplanation]] = {}
    for operation in explanation.operations:
        graphs.setdefault(operation.graph, []).append(operation)
    parts = [_legend(explanation, colours), _predictions(explanation), _notes(explanation.notes)]
    if explanation.changes:
        parts.append("<h2>What would change</h2>\n" + _notes([str(each) for each in explanation.changes]))
    for number, operations in graphs.items():
        name = "Main graph" if number == MAIN else f"Graph {number}"
        parts.append(f"<h2>{name}</h2>\n{_drawing(operations, colours)}")
    parts += [_steps(explanation), _transfers(explanation), _refusals(explanation)]
    return _PAGE.format(title=_escaped(title), body="\n".join(parts))


def _escaped(text: str) -> str:
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
    return html.escape(shown)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[str] = ()) -> str:
    """Renders a table; cells are HTML."""
    kinds = [' class="number"' if column in numbers else "" for column in columns]
    head = "".join(f"<th{kind}>{column}</th>" for kind, column in zip(kinds, columns, strict=True))
    lines = (
        "<tr>" + "".join(f"<td{kind}>{cell}</td>" for kind, cell in zip(kinds, row, strict=True)) + "</tr>"
        for row in rows
    )
    return f"<table>\n<tr>{head}</tr>\n" + "\n".join(lines) + "\n</table>"


def _legend(explanation: RenderableExplanation, colours: Mapping[str, str]) -> str:
    total = len(explanation.operations)
    rows = [
        (
            f'<span class="swatch" style="background:{colours[share.device]}"></span>{_escaped(share.device)}',
            str(share.operations),
            f"{100 * share.operations / total:.1f} %" if total else "-",
            str(share.steps),
        )
        for share in explanation.shares
    ]
    columns = ("device", "operations", "share", "steps")
    moved = (
        f"{len(explanation.transfers)} values, {explanation.transferred_bytes:,} bytes, move between devices."
    )
    return _table(columns, rows, columns[1:]) + f"\n<p>{moved}</p>"


def _predictions(explanation: RenderableExplanation) -> str:
    if not explanation.predicted_s:
        return ""
    rows = [
        (_escaped(name), f"{seconds * 1e3:.3g} ms")
        for name, seconds in sorted(explanation.predicted_s.items(), key=lambda item: item[1])
    ]
    return "<h2>Predicted times</h2>\n" + _table(("plan", "time"), rows, ("time",))


def _notes(notes: Sequence[str]) -> str:
    if not notes:
        return ""
    return "<ul>" + "".join(f"<li>{_escaped(note)}</li>" for note in notes) + "</ul>"


def _drawing(operations: Sequence[OperationExplanation], colours: Mapping[str, str]) -> str:
    """Draws one graph: a node per operation, an edge per dependency, red between devices."""
    spots = layered_positions([operation.after for operation in operations])
    corners = [(_MARGIN + round(s.column * _COLUMN), _MARGIN + s.layer * _LAYER) for s in spots]
    width = max(x for x, _ in corners) + _NODE_WIDTH + _MARGIN
    height = max(y for _, y in corners) + _NODE_HEIGHT + _MARGIN
    lines = [f'<div class="drawing"><svg width="{width}" height="{height}" role="img">']
    for operation, (x, y) in zip(operations, corners, strict=True):
        for source in operation.after:
            start_x, start_y = corners[source][0] + _NODE_WIDTH // 2, corners[source][1] + _NODE_HEIGHT
            end_x = x + _NODE_WIDTH // 2
            bend = (y - start_y) // 2
            crossing = "" if operations[source].device == operation.device else ' class="crossing"'
            lines.append(
                f'<path{crossing} d="M{start_x} {start_y}C{start_x} {start_y + bend} {end_x} {y - bend} {end_x} {y}"/>'
            )
    for operation, (x, y) in zip(operations, corners, strict=True):
        lines.append(_node(operation, x, y, colours[operation.device]))
    return "\n".join([*lines, "</svg></div>"])


def _node(operation: OperationExplanation, x: int, y: int, colour: str) -> str:
    label = f"{operation.operation} {operation.type}"
    if len(label) > _MAX_LABEL_LENGTH:
        label = label[: _MAX_LABEL_LENGTH - 1] + "…"
    if operation.branches:
        where = "interpreted: graphs " + ", ".join(map(str, operation.branches))
    else:
        where = f"{operation.device}, step {', '.join(map(str, operation.steps))}"
        where = where if len(where) <= _MAX_LABEL_LENGTH else where[: _MAX_LABEL_LENGTH - 1] + "…"
    tip = [f"{operation.label} -> {operation.device}: {operation.reason}"]
    tip += (
        f"{cost.device}: {'no figure' if cost.seconds is None else f'{cost.seconds * 1e3:.3g} ms'} ({cost.source})"
        for cost in operation.costs
    )
    tip += (f"not on {rejection.device}: {rejection.reason}" for rejection in operation.rejected)
    style = ' class="interpreted"' if operation.branches else ""
    return (
        f"<g><title>{chr(10).join(map(_escaped, tip))}</title>"
        f'<rect{style} x="{x}" y="{y}" width="{_NODE_WIDTH}" height="{_NODE_HEIGHT}" rx="4" fill="{colour}"/>'
        f'<text x="{x + 6}" y="{y + 14}">{_escaped(label)}</text>'
        f'<text x="{x + 6}" y="{y + 28}">{_escaped(where)}</text></g>'
    )


def _steps(explanation: RenderableExplanation) -> str:
    rows = [
        (
            str(step.step),
            _escaped(step.device),
            str(len(step.operations)),
            _values(step.inputs),
            _values(step.outputs),
        )
        for step in explanation.steps
    ]
    columns = ("step", "device", "operations", "inputs", "outputs")
    return "<h2>Steps</h2>\n" + _table(columns, rows, ("step", "operations"))


def _values(values: Sequence[BoundaryOperand]) -> str:
    return "<br>".join(map(_value, values))


def _value(value: BoundaryOperand) -> str:
    shape = "rank unknown" if value.dimensions is None else f"{list(value.dimensions)}"
    size = "size unknown" if value.bytes is None else f"{value.bytes:,} bytes"
    name = f" {value.name!r}" if value.name else ""
    return _escaped(f"operand {value.operand}{name}: {value.type} {shape}, {size}")


def _transfers(explanation: RenderableExplanation) -> str:
    if not explanation.transfers:
        return ""
    rows = [(_escaped(t.source), _escaped(t.target), _value(t.value)) for t in explanation.transfers]
    return "<h2>Transfers</h2>\n" + _table(("from", "to", "value"), rows)


def _refusals(explanation: RenderableExplanation) -> str:
    parts = []
    for refusal in explanation.refusals():
        where = _escaped(", ".join(refusal.operations))
        parts.append((_escaped(refusal.device), _escaped(refusal.type), _escaped(refusal.reason), where))
    if not parts:
        return ""
    return "<h2>Rejections</h2>\n" + _table(("device", "operation", "reason", "positions"), parts)
