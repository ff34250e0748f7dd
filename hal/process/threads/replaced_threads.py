"""Notices programs in which threads are none, such as those of gevent and eventlet.

These libraries replace the threads and queues of the standard library by coroutines of one thread.
neurald's threads compute and wait in native code. As coroutines, they would stop the whole program
for ever.
"""

import _queue
import _thread
import queue
import types
from typing import Final

_REMEDY: Final = (
    "neurald needs real ones: call gevent.monkey.patch_all(thread=False, queue=False), or use workers with "
    "threads, such as gunicorn's gthread"
)


class ReplacedThreads(RuntimeError):
    """The program has replaced the threads or queues of Python."""


def require_threads() -> None:
    """Checks that new threads are threads, and that queues connect threads.

    Raises:
        ReplacedThreads: they do not; the message says what to do.
    """
    if not isinstance(_thread.start_new_thread, types.BuiltinFunctionType):
        what = "threads"
    elif queue.SimpleQueue is not _queue.SimpleQueue:
        what = "queues"
    else:
        return
    raise ReplacedThreads(f"this program has replaced Python's {what}, as gevent does; {_REMEDY}")
