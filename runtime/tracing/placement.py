"""Gives the spans of a trace ids, parents and wall-clock times, which OpenTelemetry expects."""

import secrets
import time
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from neurald.runtime.tracing.span import Span

#: The ids of a trace begin at a random number, and leave room to this one.
_MAX_FIRST: Final = 1 << 62


class PlacedSpan(Struct, frozen=True, kw_only=True):
    """A span in its trace.

    Attributes:
        span: the span.
        identity: a number of 63 bits, which is unique in the trace.
        parent: the identity of the parent; 0 for none.
        start_unix_ns, end_unix_ns: when it began and ended, in nanoseconds since 1970.
    """

    span: Span
    identity: int
    parent: int
    start_unix_ns: int
    end_unix_ns: int

    @property
    def is_served(self) -> bool:
        """True for what a daemon does for a client, as a whole."""
        return self.span.category == "daemon" and "exchange" in self.span.details


def placed(spans: Sequence[Span], parent: int = 0) -> list[PlacedSpan]:
    """Returns the spans in the order in which they began.

    The parent of a span is the smallest one of the same call that contains it.

    Args:
        spans: the spans, in any order.
        parent: the span that is the parent of the calls of the application, and of what belongs to
            none; 0 for none.
    """
    # Spans are on a clock of their own, which begins at any time.
    offset = time.time_ns() - time.monotonic_ns()
    first = 1 + secrets.randbelow(_MAX_FIRST)
    found: list[PlacedSpan] = []
    by_call: dict[int, list[PlacedSpan]] = {}
    ordered = sorted(spans, key=lambda each: (each.start_ns, -each.end_ns))
    for identity, span in enumerate(ordered, first):
        parents = by_call.setdefault(span.call, [])
        while parents and parents[-1].span.end_ns < span.end_ns:
            parents.pop()
        one = PlacedSpan(
            span=span,
            identity=identity,
            # Spans that belong to no call of the application have no common parent.
            parent=parents[-1].identity if parents and span.call else parent,
            start_unix_ns=span.start_ns + offset,
            end_unix_ns=span.end_ns + offset,
        )
        found.append(one)
        parents.append(one)
    return found
