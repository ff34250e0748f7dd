"""Protects a daemon from models that may kill it: leaves breadcrumbs, and refuses some models."""

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Self

import msgspec

from neurald.hal.crashes.breadcrumbs import (
    ActivitySlot,
    Breadcrumbs,
    CrashPhase,
    Crumb,
    CrumbRecord,
    UnderWay,
)
from neurald.hal.crashes.guard import CrashGuard
from neurald.hal.crashes.outline import outline_of
from neurald.hal.crashes.pattern import CrashPattern, ModelSignatures
from neurald.hal.decoding import from_msgpack
from neurald.hal.device import Verdict
from neurald.hal.errors import BadData
from neurald.hal.model.model import Model
from neurald.hal.model.numbering import operations_name
from neurald.hal.records import DECODE_ERRORS

#: Outlines of larger models do not fit into a record.
_MAX_GRAPHS_BYTES = 60_000
_MAX_STEP = 120


class CrashWatch:
    """Breadcrumbs of this process, and the patterns that its driver must not be given.

    Args:
        breadcrumbs: the breadcrumbs of this process.
        guard: refuses patterns.
        notify: the function that is called after a helper has died, if a supervisor counts such
            deaths; otherwise they are counted here.
    """

    def __init__(
        self, breadcrumbs: Breadcrumbs, guard: CrashGuard, notify: Callable[[], None] | None = None
    ) -> None:
        self.breadcrumbs = breadcrumbs
        self.guard = guard
        self._notify = notify

    @classmethod
    def alone(cls) -> Self:
        """Creates a watch that no process reads and that refuses nothing but what it saw itself."""
        return cls(Breadcrumbs.private(), CrashGuard(None, "", ""))

    def crumb(self, model: Model, graphs: bytes) -> Crumb:
        """Records a valid model.

        Args:
            model: the model to record.
            graphs: the same model, encoded as in messages of the wire protocol.
        """
        pattern = ModelSignatures(model).pattern()
        step = operations_name(model.main, range(len(model.main.operations)))
        return self.breadcrumbs.record(
            CrumbRecord(
                pattern=pattern,
                model=hashlib.blake2b(graphs, digest_size=16).hexdigest(),
                step=step if len(step) <= _MAX_STEP else f"{step[:_MAX_STEP]} ...",
                outline=outline_of(model, graphs) if len(graphs) <= _MAX_GRAPHS_BYTES else b"",
            )
        )

    def crumb_of_artifact(self, pattern: bytes, cache_key: bytes) -> Crumb:
        """Records a model that comes from a cache.

        Args:
            pattern: the pattern of the model, from `encode_pattern`; empty if it is not known.
            cache_key: the key of the artifact in the cache.

        Raises:
            BadData: it is not a pattern.
        """
        if not pattern:
            return NO_CRUMB
        try:
            decoded = from_msgpack(pattern, CrashPattern)
        except DECODE_ERRORS as error:
            raise BadData(f"the artifact has no valid pattern of operations: {error}") from None
        decoded.check()
        return self.breadcrumbs.record(CrumbRecord(pattern=decoded, model=cache_key.hex()))

    def supported(
        self, model: Model, crumb: Crumb, session: int, ask: Callable[[], Sequence[Verdict]]
    ) -> Sequence[Verdict]:
        """Returns the verdict for each operation of a model; see `CrashGuard.supported`."""

        def asked() -> Sequence[Verdict]:
            with self.under_way(CrashPhase.QUERY, crumb, session):
                return ask()

        return self.guard.supported(model, asked)

    def under_way(self, phase: CrashPhase, crumb: Crumb, session: int) -> UnderWay:
        """Says during the block what the calling thread does with a model."""
        return self.breadcrumbs.under_way(phase, crumb, session)

    @contextlib.contextmanager
    def thread_slot(self) -> Iterator[ActivitySlot]:
        """Yields a slot for many executions of the calling thread."""
        slot = self.breadcrumbs.slot()
        try:
            yield slot
        finally:
            self.breadcrumbs.give_back(slot)

    def helper_died(self, crumb: Crumb, signal: int, cause: str) -> None:
        """Records that a process that compiled a model died of it."""
        self.breadcrumbs.helper_died(crumb, signal)
        if self._notify is not None:
            self._notify()
        elif crumb.pattern.operations:
            self.guard.helper_died(crumb.pattern, cause)


def encode_pattern(crumb: Crumb) -> bytes:
    """Encodes the pattern of a model for its artifact; empty if it is not known."""
    return msgspec.msgpack.encode(crumb.pattern) if crumb.pattern.operations else b""


#: Stands for a model that is not recorded.
NO_CRUMB = Crumb(CrashPattern(operations=()), 0xFFFFFFFF, 0, None)
