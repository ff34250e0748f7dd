"""Renders an explanation as a self-contained page that shows the model's graphs.

The page consists of the files in `page`: a style sheet, a program, and the library dagre, which
lays out graphs. It loads nothing else. Its policy allows only these scripts and this style sheet,
by their digests.

Any text may come from a model or a driver. All of it is in one JSON document that contains no
character with a meaning in HTML, and the program inserts it as text only.
"""

import base64
import hashlib
import html
import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Protocol

from msgspec import Struct

from neurald.runtime.explain.graph_records import GraphDescription, KernelDescription, ValueDescription
from neurald.runtime.explain.records import (
    BoundaryOperand,
    DeviceShare,
    DeviceTransfer,
    OperationExplanation,
    PlacementChange,
    Refusal,
    StepExplanation,
)
from neurald.runtime.plan.report import Move

#: Longer names and sentences are shortened, since a model may contain names of any length.
_MAX_NAME_LENGTH = 240
_MAX_TEXT_LENGTH = 2000

#: The files of the program. Each uses those before it.
_PROGRAM = ("text.js", "units.js", "drawing.js", "panel.js", "app.js")

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<noscript><p>This page draws the graph of a model with JavaScript, which is turned off. The command
<code>neurald explain</code> shows the same in a terminal.</p></noscript>
<script type="application/json" id="data">{data}</script>
{scripts}
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
        """The operations of all placed graphs, main graph first."""
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
    def moves(self) -> Sequence[Move]:
        """The moves of steps to the CPU device at run time, and back."""
        ...

    @property
    def predicted_s(self) -> Mapping[str, float]:
        """The predicted times of the plan and of others, in seconds, by name."""
        ...

    @property
    def changes(self) -> Sequence[PlacementChange]:
        """The placements that a what-if would change."""
        ...

    @property
    def predicted_before_s(self) -> float | None:
        """The predicted time of the plan as it is, if this is a what-if."""
        ...

    @property
    def transferred_bytes(self) -> int:
        """Bytes of all transfers whose size is known."""
        ...

    @property
    def graphs(self) -> Sequence[GraphDescription]:
        """The model's graphs, main graph first."""
        ...

    @property
    def kernels(self) -> Sequence[KernelDescription]:
        """The kernels with their times, if they were measured."""
        ...

    def refusals(self) -> Sequence[Refusal]:
        """Returns what each device rejects, by type and reason."""
        ...


class RenderedPage(Struct, frozen=True, kw_only=True):
    """A page, and the policy for its header; the page itself has it, too."""

    text: str
    policy: str


def render_html(
    explanation: RenderableExplanation, title: str, what_ifs: Sequence[RenderableExplanation]
) -> str:
    """Renders the page; see `Explanation.to_html`."""
    return render_page(title, page_document(explanation, title, what_ifs)).text


def page_document(
    explanation: RenderableExplanation, title: str, what_ifs: Sequence[RenderableExplanation] = ()
) -> dict[str, Any]:
    """Returns all that the page shows, as a JSON document."""
    devices = list(dict.fromkeys(share.device for each in (explanation, *what_ifs) for share in each.shares))
    return {
        "title": _name(title),
        "devices": [_name(device) for device in devices],
        "graphs": [_graph(graph) for graph in explanation.graphs],
        "plans": [_plan(each, devices) for each in (explanation, *what_ifs)],
    }


def render_page(title: str, document: Any) -> RenderedPage:
    """Renders the page of a document that `page_document` has made, which need not be trusted."""
    style, library = _file("graph.css"), _file("dagre.min.js")
    program = "\n".join(_file(name) for name in _PROGRAM)
    policy = page_policy(style=style, scripts=(library, program))
    text = _PAGE.format(
        policy=policy,
        title=_escaped(_name(title)),
        style=style,
        data=embedded_json(document),
        scripts=f"<script>{library}</script>\n<script>{program}</script>",
    )
    return RenderedPage(text=text, policy=policy)


def page_policy(*, style: str, scripts: Sequence[str], connects: bool = False) -> str:
    """Returns the policy of a page that has only these scripts and this style sheet.

    Args:
        style, scripts: their text.
        connects: whether it may ask its own server.
    """
    own = "connect-src 'self'; " if connects else ""
    return (
        f"default-src 'none'; script-src {' '.join(map(_digest, scripts))}; "
        f"style-src {_digest(style)}; {own}base-uri 'none'; form-action 'none'"
    )


def embedded_json(document: Any) -> str:
    """Formats JSON in ASCII, without characters that have a meaning in HTML."""
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


@cache
def _file(name: str) -> str:
    return files("neurald.runtime.explain").joinpath("page", name).read_text(encoding="utf-8")


def _digest(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def _escaped(text: str) -> str:
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
    return html.escape(shown)


def _name(text: str) -> str:
    return _shortened(text, _MAX_NAME_LENGTH)


def _text(text: str) -> str:
    return _shortened(text, _MAX_TEXT_LENGTH)


def _shortened(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}… ({len(text):,} characters)"


def _graph(graph: GraphDescription) -> dict[str, Any]:
    return {
        "number": graph.graph,
        "inputs": graph.inputs,
        "outputs": graph.outputs,
        "values": [_value(value) for value in graph.values],
        "operations": [
            {
                "number": operation.operation,
                "type": _name(operation.type),
                "inputs": [[_name(each.name), each.operand, each.meaning] for each in operation.inputs],
                "outputs": [[_name(each.name), each.operand] for each in operation.outputs],
                "graphs": operation.graphs,
            }
            for operation in graph.operations
        ],
    }


def _value(value: ValueDescription) -> dict[str, Any]:
    quantised = {"scale": f"{value.scale:g}", "zero": value.zero_point} if value.scale else {}
    return {
        "operand": value.operand,
        "name": _name(value.name),
        "type": _name(value.type),
        "shape": value.dimensions,
        "bytes": value.bytes,
        "kind": value.kind,
        "content": _name(value.content),
        "channels": value.channel_scales,
        **quantised,
    }


def _plan(explanation: RenderableExplanation, devices: Sequence[str]) -> dict[str, Any]:
    number = {device: place for place, device in enumerate(devices)}
    return {
        "operations": [
            {
                "graph": each.graph,
                "number": each.operation,
                "device": number[each.device],
                "steps": each.steps,
                "reason": _text(each.reason),
                "costs": [[number[c.device], c.seconds, c.source] for c in each.costs],
                "rejected": [[number[r.device], _text(r.reason)] for r in each.rejected],
            }
            for each in explanation.operations
        ],
        "shares": [[number[s.device], s.operations, s.steps] for s in explanation.shares],
        "steps": [
            {
                "number": step.step,
                "graph": step.graph,
                "device": number[step.device],
                "operations": step.operations,
                "inputs": [_moved(each) for each in step.inputs],
                "outputs": [_moved(each) for each in step.outputs],
            }
            for step in explanation.steps
        ],
        "transfers": [
            [each.graph, number[each.source], number[each.target], _moved(each.value)]
            for each in explanation.transfers
        ],
        "transferred": explanation.transferred_bytes,
        "refusals": [
            [number[each.device], _name(each.type), _text(each.reason), len(each.operations)]
            for each in explanation.refusals()
        ],
        "notes": [_text(note) for note in (*map(str, explanation.moves), *explanation.notes)],
        "predicted": [
            [_name(name), seconds]
            for name, seconds in explanation.predicted_s.items()
            if math.isfinite(seconds)
        ],
        "before": _finite(explanation.predicted_before_s),
        "changes": [
            [each.graph, each.operation, _name(each.before), _name(each.after)]
            for each in explanation.changes
        ],
        "kernels": [
            {
                "graph": each.graph,
                "step": each.step,
                "device": _name(each.device),
                "name": _name(each.name),
                "label": _name(each.label),
                "operations": each.operations,
                "us": each.duration_ns / 1e3,
                "reference": each.is_reference,
            }
            for each in explanation.kernels
        ],
    }


def _finite(seconds: float | None) -> float | None:
    """Returns a time, or None for an infinite one, which JSON cannot represent."""
    return seconds if seconds is not None and math.isfinite(seconds) else None


def _moved(value: BoundaryOperand) -> dict[str, Any]:
    return {
        "operand": value.operand,
        "name": _name(value.name),
        "type": _name(value.type),
        "shape": value.dimensions,
        "bytes": value.bytes,
    }
