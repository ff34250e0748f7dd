"""Prepared models that sessions of one user share.

Clients that give the same model with the same options, or the same artifact, use one prepared
model, which takes the memory of one. Every client has given all bytes of it before, and they are
compared, so that nobody gets a model that others have and it has not. Users do not share, because
the time of a preparation would tell one user what another one runs. A session does not share with
itself: it may prepare a model again to have it measured or compiled once more.
"""

import hashlib
import threading
import time
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final
from weakref import WeakKeyDictionary, WeakSet

import numpy as np

from neurald.hal.admission.sessions.registered_model import RegisteredModel
from neurald.hal.admission.sessions.session import Session
from neurald.hal.device import CacheRecord, PrepareOptions
from neurald.hal.errors import Cancelled, MissedDeadlineTransient
from neurald.hal.memory.pool import Memory
from neurald.hal.sync.cancellation import Cancellation

_POLL_S: Final = 0.02


class SharedModels:
    """Finds prepared models that a session may share. Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._models: dict[Hashable, WeakSet[RegisteredModel]] = {}
        self._options: WeakKeyDictionary[RegisteredModel, Hashable] = WeakKeyDictionary()
        self._records: WeakKeyDictionary[RegisteredModel, CacheRecord] = WeakKeyDictionary()
        self._being_prepared: set[Hashable] = set()

    @contextmanager
    def claim(
        self,
        session: Session,
        content: bytes,
        pools: Sequence[Memory],
        options: PrepareOptions,
        cancellation: Cancellation | None = None,
    ) -> Iterator["Claim"]:
        """Looks for a prepared model, or reserves its preparation until the context ends.

        While another session prepares the same, it waits.

        Args:
            session: the session that has given the model.
            content: the model as a message, or the seal of an artifact, which was checked.
            pools: the constants of the model.
            options: the options of the preparation.
            cancellation: ends the wait.

        Raises:
            Cancelled: it was cancelled while it waited.
            MissedDeadlineTransient: the deadline has passed meanwhile.
        """
        if session.user is None:
            yield Claim(self, (), (), None)
            return
        options_key = _options_key(options)
        sizes = tuple(pool.size for pool in pools)
        key = (session.user, hashlib.sha256(content).digest(), sizes, options_key)
        found = self._begin(key, session, pools, options.deadline_s, cancellation)
        if found is not None:
            yield Claim(self, key, options_key, found)
            return
        try:
            yield Claim(self, key, options_key, None)
        finally:
            with self._changed:
                self._being_prepared.discard(key)
                self._changed.notify_all()

    def add_artifact(self, session: Session, registered: RegisteredModel, seal: bytes) -> None:
        """Lets those share a prepared model who give its artifact.

        Args:
            session: the session of the prepared model.
            registered: the prepared model.
            seal: the seal of the artifact.
        """
        options_key = self._options.get(registered)
        if session.user is not None and options_key is not None:
            self.add((session.user, hashlib.sha256(seal).digest(), (), options_key), options_key, registered)

    def record(self, registered: RegisteredModel) -> CacheRecord | None:
        """Returns the entry of a prepared model in the daemon's cache, for others."""
        record = self._records.get(registered)
        return None if record is None else CacheRecord(key=record.key, was_there=True, compile_ms=0.0)

    def add(
        self,
        key: Hashable,
        options_key: Hashable,
        registered: RegisteredModel,
        record: CacheRecord | None = None,
    ) -> None:
        """Lets others share a prepared model for as long as a session uses it."""
        with self._changed:
            for old in [each for each, models in self._models.items() if not models]:
                del self._models[old]
            self._models.setdefault(key, WeakSet()).add(registered)
            self._options[registered] = options_key
            if record is not None:
                self._records[registered] = record

    def _begin(
        self,
        key: Hashable,
        session: Session,
        pools: Sequence[Memory],
        deadline_s: float | None,
        cancellation: Cancellation | None,
    ) -> RegisteredModel | None:
        """Returns a prepared model to share; if there is none, the caller prepares it."""
        refused: set[RegisteredModel] = set()
        while True:
            with self._changed:
                known = tuple(self._models.get(key, ()))
                own = {id(each.prepared_model) for each in known if each.account is session.accounts.memory}
                candidates = [
                    each for each in known if each not in refused and id(each.prepared_model) not in own
                ]
                if not candidates:
                    if key not in self._being_prepared:
                        self._being_prepared.add(key)
                        return None
                    self._changed.wait(_POLL_S)
            for each in candidates:
                if _is_equal(each.model.pools, pools):
                    return each
                refused.add(each)
            if cancellation is not None and cancellation.is_cancelled:
                raise Cancelled("the preparation was cancelled while another client prepared the same model")
            if deadline_s is not None and time.monotonic() >= deadline_s:
                raise MissedDeadlineTransient(
                    "the deadline has passed while another client prepared the same model"
                )


class Claim:
    """The right to prepare a model, or a prepared model to share.

    Attributes:
        found: the entry to share; None if the model is to be prepared.
        found_record: its entry in the daemon's cache; None if there is none.
    """

    def __init__(
        self,
        shared: SharedModels,
        key: Hashable,
        options_key: Hashable,
        found: RegisteredModel | None,
    ) -> None:
        self._shared = shared
        self._key = key
        self._options_key = options_key
        self.found = found
        self.found_record = None if found is None else shared.record(found)

    def keep(self, registered: RegisteredModel, record: CacheRecord | None) -> None:
        """Lets others share a prepared model of this content.

        Args:
            registered: the prepared model.
            record: its entry in the daemon's cache; None if there is none.
        """
        if self._key:
            self._shared.add(self._key, self._options_key, registered, record)


def _options_key(options: PrepareOptions) -> Hashable:
    """Returns the options on which a prepared model depends."""
    return options.preference, options.threads, options.attributes, options.cache_key


def _is_equal(ours: Sequence[Memory], theirs: Sequence[Memory]) -> bool:
    """Returns whether memories have the same content; those of an artifact's model have none."""
    if not theirs:
        return True
    return len(ours) == len(theirs) and all(
        one.size == other.size
        and all(
            np.array_equal(np.frombuffer(part, np.uint8), np.frombuffer(other_part, np.uint8))
            for part, other_part in zip(one.parts(), other.parts(), strict=True)
        )
        for one, other in zip(ours, theirs, strict=True)
    )
