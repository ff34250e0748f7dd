"""The start of gRPC calls whose events a thread of gRPC takes, where no Ctrl-C can cut it off.

gRPC registers such a call with its channel, and then starts the thread that takes its events. If an
exception is raised in between, which a signal's handler may do in the main thread, the events are
never taken, and closing the channel waits for them for ever.
"""

import threading
from collections.abc import Callable
from typing import Any

from neurald.hal.process.threads.checked_thread import CheckedThread


def start_call(start: Callable[[], Any]) -> Any:
    """Starts a call: in another thread, if this is the one in which signals are handled.

    If a signal's handler raises an exception here, the call is started all the same. The end of the
    channel ends it.

    Args:
        start: starts the call, and returns it.
    """
    if threading.current_thread() is not threading.main_thread():
        return start()
    calls: list[Any] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            calls.append(start())
        except Exception as error:
            errors.append(error.with_traceback(None))

    thread = CheckedThread(target=run, name="neurald call", daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors.pop()
    return calls.pop()
