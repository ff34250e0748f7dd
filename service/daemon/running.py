"""Runs a daemon in the main thread of its process, until a signal ends it."""

import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable

from neurald.hal.process.memory.heap import use_one_arena
from neurald.hal.process.parent import stop_with
from neurald.hal.process.signal_handlers import signals_handled
from neurald.hal.process.threads.time_slices import short_time_slices
from neurald.service.daemon.daemon import Daemon

#: Python's thread switch interval. It is short, so that calls of one client do not delay those of
#: all others.
_THREAD_SWITCH_INTERVAL_S = 2e-4


def run_daemon(
    daemon: Daemon, *, ready: Callable[[str], None] | None = None, until_exit_of: int | None = None
) -> int:
    """Runs a daemon in the main thread until SIGTERM or SIGINT.

    On return, the process's signal handlers and memory limits are restored, but it keeps to one
    heap for all threads. If calls do not finish in time, the function ends the process with status
    0 instead of returning.

    Args:
        daemon: the daemon, which has not been started.
        ready: the function that is called with the address once the daemon serves.
        until_exit_of: id of a process; the daemon stops when that process ends for any reason.

    Returns:
        The exit status, 0.

    Raises:
        Error: the daemon cannot start; the message says why.
    """
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(daemon.sandbox.remove_temporary_files)
        cleanup.callback(sys.setswitchinterval, sys.getswitchinterval())
        sys.setswitchinterval(_THREAD_SWITCH_INTERVAL_S)
        use_one_arena()
        cleanup.enter_context(short_time_slices())
        cleanup.enter_context(signals_handled((signal.SIGTERM, signal.SIGINT), daemon.stop))
        if until_exit_of is not None:
            stop_with(until_exit_of, daemon.stop)
        daemon.startup()
        cleanup.enter_context(daemon.reduced_garbage_collection())
        with daemon.limit_memory():
            try:
                if ready is not None:
                    ready(daemon.address)
                daemon.serve()
            finally:
                is_done = daemon.shutdown()
    if not is_done:
        logging.shutdown()
        sys.stdout.flush()
        os._exit(0)
    return 0
