"""Counts and logs the calls that a daemon refuses or does not finish in time.

At overload there are thousands of them a second, so of those of one kind only one line is written
in a while, which says how many were left out before.
"""

import logging
from collections import defaultdict
from functools import partial
from typing import Final

from neurald.hal.accounting.events import CountedEvent, event_of, note_event
from neurald.hal.errors import Error
from neurald.hal.process.rate_limited_logger import RateLimitedLogger

#: The limited loggers, by the event, the class of the error, and what has failed.
_lines: Final[defaultdict[tuple[CountedEvent, type[Error], str], RateLimitedLogger]] = defaultdict(
    partial(RateLimitedLogger, logging.getLogger(__name__))
)


def note_failure(error: Error, what: str) -> None:
    """Counts an error that a daemon answers with and logs it, if it is about time or refused work.

    Args:
        error: the client's error.
        what: the kind of work that failed, such as "a call"; one of few.
    """
    event = event_of(error)
    if event is not None:
        line = _lines[event, type(error), what]
        note_event(event, type(error).__name__, line.info, "%s of %s: %s", event, what, error)
