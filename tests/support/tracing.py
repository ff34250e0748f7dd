"""What share of a call's time its trace explains."""

import neurald as nd


def shares(trace: nd.Trace, call: str | int | None = None) -> list[float]:
    """Returns the covered share of each call; of those of a name, or with a number, if one is given."""
    numbers = {
        span.call
        for span in trace.spans
        if span.category == "call" and (call is None or call in (span.name, span.call))
    }
    found = []
    for number in sorted(numbers):
        only = nd.Trace()
        only._spans = [span for span in trace.spans if span.call == number]
        found.append(only.coverage())
    return found
