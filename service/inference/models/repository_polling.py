"""Keeps what is served like what is in the repository, by looking at its files at intervals.

A model that is new or has changed is loaded, and one that is gone is unloaded. One that cannot be
loaded, perhaps since its files are still being written, is tried again when they have changed.
"""

import asyncio
import logging
from collections.abc import Sequence

from neurald.service.inference.models.registry import Registry
from neurald.service.inference.protocol.errors import ServiceError
from neurald.service.inference.repository.folders import Repository

logger = logging.getLogger(__name__)


class RepositoryPolling:
    """Loads and unloads models as the repository changes. Belongs to one event loop.

    Args:
        registry: serves the models.
        repository: where models are.
        names: the models to look at; None for all.
    """

    def __init__(self, registry: Registry, repository: Repository, names: Sequence[str] | None) -> None:
        self._registry = registry
        self._repository = repository
        self._names = None if names is None else frozenset(names)
        self._known: dict[str, object] = {}

    async def note(self) -> None:
        """Notes what is there, before it is loaded for the first time.

        Raises:
            OSError: a folder cannot be read.
        """
        self._known = await self._states()

    async def look(self) -> None:
        """Loads what has changed since the last look, and unloads what is gone."""
        try:
            now = await self._states()
        except OSError as error:
            logger.warning("the repository cannot be read; what is loaded stays: %s", error.strerror)
            return
        known, self._known = self._known, now
        changed = [name for name, state in now.items() if known.get(name) != state]
        gone = known.keys() - now.keys()
        outcomes = await asyncio.gather(*map(self._registry.load, changed), return_exceptions=True)
        for name, outcome in zip(changed, outcomes, strict=True):
            if isinstance(outcome, ServiceError):
                logger.error("the model %s cannot be served as it is now: %s", name, outcome)
            elif isinstance(outcome, BaseException):
                try:
                    raise outcome
                finally:
                    # The error refers to this frame, so the frame must not refer to it.
                    outcomes.clear()
                    del outcome
        await asyncio.gather(*map(self._registry.unload, gone))

    async def _states(self) -> dict[str, object]:
        # In a thread, since a file system of another host may take its time.
        states = await asyncio.to_thread(self._repository.states)
        return {name: state for name, state in states.items() if self._names is None or name in self._names}
