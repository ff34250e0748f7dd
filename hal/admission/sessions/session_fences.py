"""The fences of one client in a daemon, and the executions that signal them when they are over.

The client names a fence by a random token, which can be used in one call: the call takes the fence
out of the session.
"""

from collections.abc import Callable
from weakref import WeakKeyDictionary

from neurald.hal.accounting.account import Reservation
from neurald.hal.accounting.holdings import SessionAccounts
from neurald.hal.accounting.limits import Limits
from neurald.hal.admission.sessions.handle_table import HandleTable
from neurald.hal.admission.sessions.session_memories import new_token
from neurald.hal.errors import BadState
from neurald.hal.execution.fenced_execution import FencedRun
from neurald.hal.sync.fence import Fence


class SessionFences:
    """Keeps fences and fenced executions, within limits. Thread-safe.

    Args:
        limits: how many of them the session may have.
        accounts: charged for the descriptors of fences.
        new_handle: returns a number that nothing else of the session has.
    """

    def __init__(self, limits: Limits, accounts: SessionAccounts, new_handle: Callable[[], int]) -> None:
        self._accounts = accounts
        self._fences: HandleTable[bytes, Fence] = HandleTable(
            "fence token", new_token, limits.fences, "fences"
        )
        #: The descriptors of fences, which count as long as the fences live, also after their
        #: tokens were used.
        self._descriptors: WeakKeyDictionary[Fence, Reservation] = WeakKeyDictionary()
        self._runs: HandleTable[int, FencedRun] = HandleTable(
            "fenced execution", new_handle, limits.fenced_executions, "fenced_executions"
        )

    def add(self, fence: Fence) -> bytes:
        """Keeps a fence until its token is used, and returns the token.

        Raises:
            ResourceExhaustedTransient: there are too many.
            DeadObject: the session is over.
        """

        def charged() -> Fence:
            self._descriptors[fence] = self._accounts.descriptors.reserve(1, "a fence")
            return fence

        return self._fences.add(charged)

    def take(self, token: bytes) -> Fence:
        """Returns the fence of a token, which cannot be used again.

        Raises:
            BadData: the session has no such token.
            DeadObject: the session is over.
        """
        return self._fences.take(token)

    def start_run(self, execution: FencedRun) -> int:
        """Starts a fenced execution, keeps it until its result is taken, and returns its handle.

        Raises:
            ResourceExhaustedTransient: there are too many, or no thread can be started. Nothing is
                kept then.
            DeadObject: the session is over.
        """

        def started() -> FencedRun:
            execution.start()
            return execution

        return self._runs.add(started)

    def take_run(self, handle: int) -> FencedRun:
        """Returns a fenced execution that is over; its handle cannot be used again.

        Raises:
            BadData: the session has no such handle.
            BadState: it is not over yet.
            DeadObject: the session is over.
        """

        def require_over(execution: FencedRun) -> None:
            if not execution.is_over:
                raise BadState(f"fenced execution {handle} is not over yet; wait for its fence first")

        return self._runs.take(handle, require_over)

    def close(self) -> tuple[FencedRun, ...]:
        """Drops all fences, keeps no more, and returns the executions that were not taken."""
        self._fences.close()
        return self._runs.close()
