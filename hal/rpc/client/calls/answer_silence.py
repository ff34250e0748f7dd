"""Ends calls of daemons that do not answer, or that begin an answer and do not go on.

A preparation or an execution may take any time, but a daemon has the whole answer when it begins to
send it. Other calls need no work that takes long, except a profile, which runs each kernel alone.
"""

import threading
from collections.abc import Generator
from typing import Any, Final

import grpc

from neurald.hal.errors import OpFailed
from neurald.hal.process.threads.checked_thread import CheckedThread

#: Calls that daemons answer at once, or after a copy: device memory in use is not waited for.
_PROMPT_CALLS: Final = frozenset(
    {
        "Allocate",
        "CopyFromBuffer",
        "CopyToBuffer",
        "GetArtifact",
        "GetImprovement",
        "GetStatus",
        "GetSupportedOperations",
    }
)
#: How long a daemon may send nothing in the middle of an answer, or before one that needs no work;
#: twice as long if that is checked late.
MAX_SILENCE_S: Final = 60.0
#: A profile may take this many times as long.
_PROFILE: Final = 10


def limit_of(method: str) -> float | None:
    """Returns after how many seconds a call without a deadline is given up; None if never."""
    if method == "Profile":
        return _PROFILE * MAX_SILENCE_S
    return MAX_SILENCE_S if method in _PROMPT_CALLS else None


def rest_of_answer(call: Any) -> Generator[Any, None, None]:
    """Yields the messages of an answer, from one that is to arrive soon on, until the call ends.

    Args:
        call: a call of gRPC, which is cancelled if the daemon is silent for too long.

    Raises:
        OpFailed: the daemon is silent.
        RpcError: the daemon's error, or the connection was lost.
    """
    has_ended, is_silent, count = threading.Event(), False, 0

    def watch() -> None:
        nonlocal is_silent
        seen = -1
        while seen != count:
            seen = count
            if has_ended.wait(MAX_SILENCE_S):
                return
        is_silent = True
        call.cancel()

    CheckedThread(target=watch, name="neurald silence of a daemon", daemon=True).start()
    try:
        for reply in call:
            count += 1
            yield reply
    except grpc.RpcError:
        if is_silent:
            raise OpFailed(
                f"the daemon has sent nothing for {MAX_SILENCE_S:g} s in the middle of an answer"
            ) from None
        raise
    finally:
        has_ended.set()
