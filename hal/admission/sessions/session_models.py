"""The prepared models of one client in a daemon, by their handles."""

import threading
from collections.abc import Callable

from neurald.hal.accounting.account import Account
from neurald.hal.accounting.limits import Limits
from neurald.hal.admission.sessions.handle_table import HandleTable
from neurald.hal.admission.sessions.registered_model import RegisteredModel
from neurald.hal.admission.sessions.session_memories import SessionMemories
from neurald.hal.buffers.staging import ArenaPool
from neurald.hal.crashes.breadcrumbs import Crumb
from neurald.hal.crashes.watch import NO_CRUMB
from neurald.hal.device import PreparedModel
from neurald.hal.errors import ResourceExhaustedPersistent
from neurald.hal.model.model import Model
from neurald.hal.model.types import Priority

#: How many arenas a prepared model keeps, and of how many bytes together.
_ARENA_CACHE_SIZE = 2
_MAX_CACHED_ARENA_BYTES = 32 << 20


class SessionModels:
    """Keeps prepared models, within limits. Thread-safe.

    Args:
        limits: how many models the session may have, and how large their constants may be.
        memories: makes memory for copies of arguments.
        account: charged for the memory that executions take.
        new_handle: returns a number that nothing else of the session has.
    """

    def __init__(
        self, limits: Limits, memories: SessionMemories, account: Account, new_handle: Callable[[], int]
    ) -> None:
        self._limits, self._memories, self._account = limits, memories, account
        self._models: HandleTable[int, RegisteredModel] = HandleTable(
            "prepared model", new_handle, limits.prepared_models, "prepared_models"
        )

    def __len__(self) -> int:
        """Returns the number of prepared models that the session has."""
        return len(self._models)

    def add(
        self,
        model: Model,
        prepared_model: PreparedModel,
        priority: Priority = Priority.MEDIUM,
        cache_key: bytes = b"",
        crumb: Crumb = NO_CRUMB,
        improved: threading.Event | None = None,
    ) -> int:
        """Keeps a prepared model and returns its handle.

        Args:
            model, prepared_model, priority, cache_key, crumb, improved: see `RegisteredModel`.

        Raises:
            ResourceExhaustedTransient: there are too many.
            DeadObject: the session is over.
        """
        arenas = ArenaPool(
            self._memories.new, max_kept=_ARENA_CACHE_SIZE, max_kept_bytes=_MAX_CACHED_ARENA_BYTES
        )
        registered = RegisteredModel(
            model=model,
            prepared_model=prepared_model,
            arenas=arenas,
            priority=priority,
            account=self._account,
            cache_key=cache_key,
            crumb=crumb,
            improved=improved,
        )
        return self._models.add(lambda: registered)

    def add_shared(self, other: RegisteredModel, priority: Priority, cache_key: bytes = b"") -> int:
        """Keeps a prepared model of another session of the user, and returns its handle here.

        Args:
            other: the prepared model there.
            priority, cache_key: see `RegisteredModel`.

        Raises:
            Error: see `add`.
        """
        return self.add(other.model, other.prepared_model, priority, cache_key, other.crumb, other.improved)

    def require_space(self) -> None:
        """Raises an error if the session may not have one more prepared model.

        Raises:
            ResourceExhaustedTransient: it may not.
        """
        self._models.require_space()

    def find(self, handle: int) -> RegisteredModel:
        """Returns the prepared model of a handle.

        Raises:
            BadData: the session has no such handle.
            DeadObject: the session is over.
        """
        return self._models.find(handle)

    def release(self, handle: int) -> None:
        """Releases a prepared model; its executions that are under way finish.

        Raises:
            BadData: the session has no such handle.
            DeadObject: the session is over.
        """
        self._models.take(handle)

    def check_constants(self, size_bytes: int) -> None:
        """Raises an error if the constants of a model are too large.

        Raises:
            ResourceExhaustedPersistent: they take more bytes than one model may have.
        """
        limit = self._limits.model_bytes
        if size_bytes > limit:
            raise ResourceExhaustedPersistent(
                f"the model has constants of {size_bytes} bytes; one model may have {limit} (model_bytes)"
            )

    def close(self) -> tuple[RegisteredModel, ...]:
        """Drops all prepared models, keeps no more, and returns those that there were."""
        return self._models.close()
