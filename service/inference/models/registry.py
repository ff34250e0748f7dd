"""The models that are served, by name and version; loads and unloads them."""

import asyncio
import contextlib
import logging
import os
import weakref
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

import msgspec

from neurald.hal.errors import Error
from neurald.hal.wording import listed, printable
from neurald.service.inference.models.model_choices import ModelChoices
from neurald.service.inference.models.served_version import ServedVersion, VersionOptions
from neurald.service.inference.models.workers.worker_pool import WorkerPool
from neurald.service.inference.protocol.errors import ServiceError, Status, status_of
from neurald.service.inference.protocol.tensors import quoted
from neurald.service.inference.repository.folders import (
    Found,
    Repository,
    check_name,
    given_files,
    not_polled,
)
from neurald.service.inference.repository.model_config import (
    ModelSettings,
    absent_versions,
    completed,
    parse_config,
    parse_config_json,
    settings_of,
    versions_to_serve,
)
from neurald.service.inference.worker.read_files import read_state
from neurald.service.manager.state import ModelStatus

logger = logging.getLogger(__name__)

READY: Final = "READY"
UNAVAILABLE: Final = "UNAVAILABLE"
LOADING: Final = "LOADING"
#: The reason why a model of two repositories is not served, in the words of Triton.
_AMBIGUOUS: Final = "model appears in two or more repositories"
#: The reason why a model that a client has unloaded is not there.
_UNLOADED: Final = "unloaded"
#: What operators are told of a model whose workers cannot read what was written since.
OUTDATED: Final = (
    "it was loaded before the configuration or the records of wrong results changed; loading it again, or a "
    "restart of the service, applies the change"
)
#: How many models are loaded at the same time.
_LOADS: Final = 2
#: How many models there are at most whose files clients have given: each has processes of its own.
_MAX_GIVEN: Final = 64
#: How many models are remembered that could not be loaded, or were unloaded, and how much of each
#: reason. Configurations of clients may be a part of these, and all are in one report.
_MAX_FAILURES: Final = 1024
_MAX_REASON_CHARACTERS: Final = 800
#: How many versions are named in a reason.
_MAX_NAMED = 10
#: How many versions are remembered that were served and are not any more.
_MAX_FORMER: Final = 4096


class IndexEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a model in the index of the repository.

    Attributes:
        name: the name of the model.
        version: the version of the model; empty if it is not known.
        state: `READY`, `UNAVAILABLE` or `LOADING`; empty if nobody has asked for the model yet.
        reason: why it is not ready.
    """

    name: str
    version: str
    state: str
    reason: str


class _Source(msgspec.Struct, frozen=True, kw_only=True):
    """The origin of a loaded model: its files and configuration.

    Attributes:
        state: the state of its files in the repository.
        config_json: the configuration in JSON that a client has given.
        files: the files that a client has given, with their digests.
        given_bytes: their size.
    """

    state: tuple[tuple[str, tuple[int, ...]], ...]
    config_json: str | None
    files: tuple[tuple[str, bytes], ...]
    given_bytes: int


class Registry:
    """Serves the models of a repository. Belongs to one event loop.

    Args:
        repository: where models are.
        workers: gives workers to models.
        options: what holds for the versions of all models.
        given_bytes: how large the files may be together that clients have sent.
        choices: the models that clients have loaded and unloaded.

    Attributes:
        is_starting: whether the models of the start are not loaded yet, so that clients should ask
            again for one that is not there.
    """

    def __init__(
        self,
        repository: Repository,
        workers: WorkerPool,
        options: VersionOptions,
        *,
        given_bytes: int,
        choices: ModelChoices,
    ) -> None:
        self.is_starting = False
        self._choices = choices
        self._repository = repository
        self._workers = workers
        self._options = options
        self._given_bytes = given_bytes
        self._models: dict[str, dict[int, ServedVersion]] = {}
        self._sources: dict[str, _Source] = {}
        self._failures: dict[str, str] = {}
        #: What operators are told of models of which not all versions are there that are wanted.
        self._absences: dict[str, str] = {}
        #: Versions that were served and are not any more, the oldest first.
        self._former: dict[tuple[str, int], None] = {}
        self._loading: set[str] = set()
        #: The locks that are held or waited for, by model.
        self._locks: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()
        self._slots = asyncio.Semaphore(_LOADS)
        #: Models without which the service is not ready.
        self._demanded: set[str] = set()

    # Lookup.

    def find(self, name: str, version: str = "") -> ServedVersion:
        """Returns a version of a model; the newest if the version is empty. Any thread may call it.

        Raises:
            ServiceError: it is not served.
        """
        versions = self._models.get(name)
        if not versions and name not in self._failures and (self.is_starting or name in self._loading):
            raise ServiceError(
                Status.UNAVAILABLE,
                f"Request for unknown model: {quoted(name)} is not at ready state: models are being loaded",
            )
        if not versions and version and self._was_served(name, version):
            raise _not_ready(name, version)
        if not versions:
            raise ServiceError(
                Status.NOT_FOUND,
                f"Request for unknown model: {quoted(name)} is not found"
                if name not in self._failures
                else f"Request for unknown model: {quoted(name)} has no available versions",
            )
        if not version:
            return versions[max(versions)]
        if not (version.isascii() and version.isdecimal()) or not int(version[:19]):
            raise ServiceError(
                Status.INVALID,
                f"failed to get model version from specified version string {quoted(version)}, version should be "
                "an integral value > 0",
            )
        found = versions.get(int(version)) if len(version) < 19 else None
        if found is None and self._was_served(name, version):
            raise _not_ready(name, version)
        if found is None:
            raise ServiceError(
                Status.NOT_FOUND,
                f"Request for unknown model: {quoted(name)} version {quoted(version)[1:-1]} is not found",
            )
        return found

    def _was_served(self, name: str, version: str) -> bool:
        """Returns whether a version was served and is not any more."""
        return version.isascii() and version.isdecimal() and (name, int(version[:19])) in self._former

    def versions_of(self, name: str) -> tuple[int, ...]:
        """Returns the versions of a model that are served, in ascending order."""
        return tuple(sorted(self._models.get(name, ())))

    def served(self) -> list[ServedVersion]:
        """Returns all versions that are served. Any thread may call it."""
        # A tuple is made at once, while a loop could find that the loop's thread adds a model.
        models = tuple(self._models.values())
        return [found for versions in models for _, found in sorted(versions.items())]

    def only(self) -> ServedVersion | None:
        """Returns what is served if it is one version of one model; else None.

        Any thread may call it.
        """
        models = tuple(self._models.values())
        versions = tuple(models[0].values()) if len(models) == 1 else ()
        return versions[0] if len(versions) == 1 else None

    def statuses(self) -> tuple[ModelStatus, ...]:
        """Describes for operators the served versions, and models that could not be loaded."""
        found: list[ModelStatus] = []
        state = read_state()
        for each in self.served():
            status = each.status()
            failure = self._failures.get(each.name)
            if failure is not None and not status.reason:
                status = msgspec.structs.replace(
                    status, reason=f"{failure.removesuffix(';')}; what was loaded before is served"
                )
            elif not status.reason and each.is_outdated(state):
                status = msgspec.structs.replace(status, reason=OUTDATED)
            elif not status.reason:
                status = msgspec.structs.replace(status, reason=self._absences.get(each.name, ""))
            found.append(status)
        found += (
            ModelStatus(name=name, version="", is_ready=False, reason=failure)
            for name, failure in sorted(self._failures.items())
            if name not in self._models and failure != _UNLOADED
        )
        return tuple(found)

    @property
    def is_ready(self) -> bool:
        """True if all models that must be there are ready. Any thread may ask."""
        return all(
            (versions := self._models.get(name)) and any(each.is_ready for each in tuple(versions.values()))
            for name in tuple(self._demanded)
        ) and all(each.is_ready for each in self.served())

    def index(self) -> list[IndexEntry]:
        """Returns what is known of the models in the repository, and of those that are served."""
        entries: list[IndexEntry] = []
        names = self._repository.models()
        former: dict[str, list[int]] = {}
        for model, version in self._former:
            former.setdefault(model, []).append(version)
        for name in sorted({*names, *self._models, *self._failures}):
            served = self._models.get(name, {})
            if served:
                entries += _served_entries(name, served, former.get(name, ()))
                continue
            state, reason = "", ""
            if name in self._loading:
                state = LOADING
            elif name in self._failures:
                state, reason = UNAVAILABLE, self._failures[name]
            known = names.get(name)
            if known is not None and known.is_ambiguous:
                state, reason = UNAVAILABLE, _AMBIGUOUS
            newest = str(known.versions[-1]) if known is not None and known.versions and state else ""
            entries.append(IndexEntry(name=name, version=newest, state=state, reason=reason))
        return entries

    # Loading.

    async def load_all(self, names: tuple[str, ...] | None) -> None:
        """Loads models; logs each that cannot be loaded.

        Args:
            names: the models to load unless clients have unloaded them; None for all of the
                repository. Those of the repository that clients have loaded are loaded as well.
        """
        if names is None:
            for file, reason in self._repository.unserved():
                logger.warning("the file %s is no model: %s", quoted(file), reason)
        there = self._repository.models()
        wanted = self._choices.to_load(there if names is None else names, there=there)
        for name in self._choices.unloaded():
            self._note_failure(name, _UNLOADED)
        self._demanded.update(wanted)
        await asyncio.gather(*map(self._attempt, wanted))
        self.is_starting = False

    async def _attempt(self, name: str) -> None:
        """Loads a model, or logs why it cannot be loaded."""
        try:
            await self.load(name)
        except Exception as error:
            logger.error("the model %s cannot be served: %s", name, error)

    async def load(
        self, name: str, config_json: str | None = None, files: Mapping[str, bytes] | None = None
    ) -> None:
        """Loads a model, or loads it again if its files, or those of its workers, have changed.

        A version whose own file and configuration are the same as before stays as it is, but is
        started once more if it has killed its workers too often.
        Requests are answered by the versions before until the new ones are ready; if they cannot be
        loaded, these stay. A model that was loaded with a configuration or files of a client keeps
        these until its files in the repository change, or it is unloaded.

        Args:
            name: the name of the model.
            config_json: the configuration in place of that in the repository.
            files: the files of the model in place of the repository's, by path, with a
                configuration.

        Raises:
            ServiceError: it cannot be loaded.
        """
        check_name(name)
        found = given_files(name, files, config_json) if files else self._repository.find(name)
        async with self._lock(name), self._slots:
            self._loading.add(name)
            try:
                self._require_room(found)
                await self._load(found, config_json)
                self._failures.pop(name, None)
            except ServiceError as error:
                self._note_failure(name, str(error))
                raise
            except OSError as error:
                failure = ServiceError(Status.UNAVAILABLE, f"failed to load {quoted(name)}: {error.strerror}")
                self._note_failure(name, str(failure))
                try:
                    raise failure from None
                finally:
                    # The error refers to this frame, so the frame must not refer to it.
                    del failure
            finally:
                self._loading.discard(name)

    def note_choice(self, name: str, *, is_wanted: bool) -> None:
        """Notes that a client has loaded or unloaded a model."""
        self._choices.note(name, is_wanted=is_wanted, names=self._repository.models())

    async def unload(self, name: str) -> None:
        """Unloads a model, if there is one of this name; its requests are answered first."""
        is_known = name in self._models or name in self._failures
        if not is_known and name not in self._repository.models():
            return
        async with self._lock(name):
            versions = self._models.pop(name, {})
            self._note_former(name, versions, ())
            self._sources.pop(name, None)
            self._absences.pop(name, None)
            self._demanded.discard(name)
            self._note_failure(name, _UNLOADED)
            await asyncio.gather(*(each.close() for each in versions.values()))

    async def close(self, drain_s: float) -> None:
        """Unloads all models."""
        served, self._models = self.served(), {}
        await asyncio.gather(*(each.close(drain_s) for each in served))

    def _lock(self, name: str) -> asyncio.Lock:
        return self._locks.setdefault(name, asyncio.Lock())

    def _note_failure(self, name: str, reason: str) -> None:
        """Remembers why a model is missing, and forgets the oldest, since clients choose names."""
        if len(reason) > _MAX_REASON_CHARACTERS:
            reason = f"{reason[:_MAX_REASON_CHARACTERS]} …"
        self._failures.pop(name, None)
        while len(self._failures) >= _MAX_FAILURES:
            del self._failures[next(iter(self._failures))]
        self._failures[name] = printable(reason, keeps_lines=True)

    def _note_absence(self, name: str, versions: Sequence[int]) -> None:
        """Logs and remembers versions that the policy of a model names and that do not exist."""
        self._absences.pop(name, None)
        if not versions:
            return
        numbers = [str(each) for each in versions[:_MAX_NAMED]]
        if len(versions) > _MAX_NAMED:
            numbers.append(f"{len(versions) - _MAX_NAMED} more")
        self._absences[name] = (
            f"its policy names versions that are not there: {listed(numbers)}; add them, or change version_policy"
        )
        logger.warning("the model %s is served, but %s", name, self._absences[name])

    def _note_former(self, name: str, before: Iterable[int], now: Iterable[int]) -> None:
        """Remembers versions that are not served any more, and forgets those that are."""
        for version in before:
            self._former[name, version] = None
        for version in now:
            self._former.pop((name, version), None)
        while len(self._former) > _MAX_FORMER:
            del self._former[next(iter(self._former))]

    def _require_room(self, found: Found) -> None:
        """Raises ServiceError if clients have given too many models, or too large ones."""
        if not found.files:
            return
        given = [source for name, source in self._sources.items() if source.files and name != found.name]
        size = _size(found) + sum(source.given_bytes for source in given)
        if size > self._given_bytes:
            raise ServiceError(
                Status.EXHAUSTED,
                f"failed to load {quoted(found.name)}: the files that clients have sent would have {size} bytes; "
                f"{self._given_bytes} may be; unload one of the models",
            )
        if len(given) >= _MAX_GIVEN:
            raise ServiceError(
                Status.EXHAUSTED,
                f"failed to load {quoted(found.name)}: there are {_MAX_GIVEN} models whose files clients have sent; "
                "unload one of them",
            )

    async def _load(self, found: Found, config_json: str | None) -> None:
        name = found.name
        if found.is_ambiguous:
            raise not_polled(name, _AMBIGUOUS, Status.INVALID)
        loaded = self._sources.get(name) if name in self._models else None
        source = _Source(
            state=self._repository.state_of(name),
            config_json=config_json,
            files=tuple((path, sha256(content).digest()) for path, content in found.files.items()),
            given_bytes=_size(found),
        )
        if loaded is not None:
            is_plain = config_json is None and not found.files
            keeps_given = is_plain and loaded != source and loaded.state == source.state
            if keeps_given or (loaded == source and not self._is_outdated(name)):
                await asyncio.gather(*map(_revived, self._models[name].values()))
                return
        try:
            config, settings, labels = self._configured(found, config_json)
        except ServiceError as error:
            raise not_polled(name, str(error), error.status) from None
        versions = versions_to_serve(config, found.versions)
        if not versions:
            has = listed([str(each) for each in found.versions]) if found.versions else "none"
            raise ServiceError(
                Status.INVALID,
                f"load failed for model {quoted(name)}: at least one version must be available under the version "
                f"policy of model {quoted(name)}, which has the versions: {has}",
            )
        before = self._models.get(name, {})
        origins = {each: _origin(found, source, config, labels, each) for each in versions}
        kept = {
            version: same
            for version in versions
            if (same := before.get(version)) is not None
            and (same.origin == origins[version] and same.is_ready and not same.is_outdated(read_state()))
        }
        with contextlib.ExitStack() as opened:
            files: dict[int, int] = {}
            for version in sorted(origins.keys() - kept.keys()):
                try:
                    files[version] = self._repository.open_model(found, version, settings.file_name)
                except ServiceError as error:
                    raise _load_failure(name, version, error) from None
                opened.callback(os.close, files[version])
            fresh = {
                version: self._version(name, version, config, settings, labels, os.dup(file))
                for version, file in files.items()
            }
        try:
            for version, each in fresh.items():
                each.origin = origins[version]
                await _started(each)
            for each in kept.values():
                await _revived(each)
        except BaseException:
            await asyncio.gather(*(each.close(0) for each in fresh.values()))
            raise
        for each in kept.values():
            each.config = completed(config, name, each.loaded_by_worker)
        self._models[name], self._sources[name] = kept | fresh, source
        self._note_absence(name, absent_versions(config, found.versions))
        self._note_former(name, before, versions)
        await asyncio.gather(*(each.close() for version, each in before.items() if version not in kept))

    def _configured(
        self, found: Found, config_json: str | None
    ) -> tuple[Any, ModelSettings, dict[str, tuple[str, ...]]]:
        """Returns the configuration of a model, what follows from it, and the classes of outputs.

        Raises:
            ServiceError: the configuration, or a file that it names, is not valid.
        """
        name = found.name
        text = self._repository.config_text(found)
        config = parse_config(name, text) if config_json is None else parse_config_json(name, config_json)
        labels = {
            each.name: self._repository.labels(found, each.label_filename)
            for each in config.output
            if each.label_filename
        }
        return config, settings_of(name, config), labels

    def _is_outdated(self, name: str) -> bool:
        state = read_state()
        return any(each.is_outdated(state) for each in self._models[name].values())

    def _version(
        self,
        name: str,
        version: int,
        config: Any,
        settings: ModelSettings,
        labels: Mapping[str, Sequence[str]],
        model: int,
    ) -> ServedVersion:
        return ServedVersion(name, version, config, settings, labels, model, self._workers, self._options)


def _origin(
    found: Found, source: _Source, config: Any, labels: Mapping[str, Sequence[str]], version: int
) -> object:
    """Returns what one version is loaded from, for comparisons."""
    config = type(config).FromString(config.SerializeToString())
    config.ClearField("version_policy")
    folder = f"{version}/"
    files: tuple[object, ...] = source.state
    if found.files:
        files = tuple(each for each in source.files if each[0].startswith(folder))
    elif found.is_folder:
        files = tuple(each for each in source.state if each[0].startswith(f"{found.name}/{folder}"))
    return config, labels, bool(found.files), files


async def _started(version: ServedVersion) -> None:
    """Starts a version; raises ServiceError if it cannot be loaded."""
    await _loaded(version, version.start())


async def _revived(version: ServedVersion) -> None:
    """Revives a version; raises ServiceError if it cannot be loaded."""
    await _loaded(version, version.revive())


async def _loaded(version: ServedVersion, loading: Awaitable[None]) -> None:
    try:
        await loading
    except (ServiceError, Error, OSError) as error:
        raise _load_failure(version.name, version.version, error) from None


def _load_failure(name: str, version: int, error: Exception) -> ServiceError:
    status = error.status if isinstance(error, ServiceError) else Status.UNAVAILABLE
    if isinstance(error, Error):
        status = status_of(error.code)
    return ServiceError(
        status, f"load failed for model {quoted(name)}: version {version} is at UNAVAILABLE state: {error};"
    )


def _served_entries(
    name: str, served: Mapping[int, ServedVersion], former: Iterable[int]
) -> list[IndexEntry]:
    """Returns the versions of a model that are served, and those that were."""
    entries: list[IndexEntry] = []
    for version in sorted({*served, *former}):
        found = served.get(version)
        state = READY if found is not None and found.is_ready else UNAVAILABLE
        reason = _UNLOADED if found is None else found.reason
        entries.append(IndexEntry(name=name, version=str(version), state=state, reason=reason))
    return entries


def _not_ready(name: str, version: str) -> ServiceError:
    """Returns the error for a version that was unloaded; another service may still have it."""
    return ServiceError(
        Status.UNAVAILABLE,
        f"Request for unknown model: {quoted(name)} version {version} is not at ready state",
    )


def _size(found: Found) -> int:
    """Returns the size of the files of a model that a client has sent."""
    return sum(map(len, found.files.values()))
