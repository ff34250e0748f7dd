"""Writes metrics in the text format of Prometheus."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from neurald.hal.accounting.events import event_counts

#: The media type of the text.
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Sample(Struct, frozen=True, array_like=True):
    """A value of a metric, with its labels.

    Attributes:
        labels: the labels.
        value: the value; NaN if there is none now.
        suffix: what follows the name of the metric, such as `_sum`.
    """

    labels: Mapping[str, str]
    value: float
    suffix: str = ""


class Metric(Struct, frozen=True, kw_only=True):
    """A metric of a process, with all its values.

    Attributes:
        name: the name with its unit, such as `neurald_driver_busy_seconds_total`.
        kind: `counter`, `gauge`, `histogram` or `summary`.
        description: the description for readers.
        samples: its values.
    """

    name: str
    kind: str
    description: str
    samples: Sequence[Sample]


def exposition(metrics: Iterable[Metric]) -> str:
    """Returns the text of metrics."""
    lines: list[str] = []
    for metric in metrics:
        lines += (f"# HELP {metric.name} {metric.description}", f"# TYPE {metric.name} {metric.kind}")
        lines += (
            f"{metric.name}{each.suffix}{_labels(each.labels)} {_number(each.value)}"
            for each in metric.samples
        )
    return "\n".join(lines) + "\n"


def event_metric() -> Metric:
    """Returns the events of this process as a metric."""
    return Metric(
        name="neurald_events_total",
        kind="counter",
        description="Events of this process, such as fallbacks and missed deadlines, with the reason",
        samples=[
            Sample({"event": event.value, "reason": reason}, count)
            for (event, reason), count in sorted(event_counts().items())
        ],
    )


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return str(int(value)) if value == int(value) else repr(float(value))
