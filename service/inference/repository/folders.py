"""Repositories of models: folders in the layout of Triton, and plain `.tflite` files.

    repository/
        digits.tflite               the model `digits`, version 1
        classifier/
            config.pbtxt            optional
            1/model.tflite
            2/model.tflite

A folder with neither a version nor a configuration is not a model, as `__pycache__` is none.

Names come from clients. Every file is opened relative to the repository's own descriptor, and the
kernel refuses whatever would leave it (RESOLVE_BENEATH), symbolic links included.
"""

import contextlib
import errno
import fcntl
import os
import re
import stat
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from neurald.hal.errors import BadState
from neurald.hal.process.files.bounded_read import read_at_most
from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.protocol.tensors import quoted
from neurald.service.sandbox.kernel import system_call

CONFIG_FILE: Final = "config.pbtxt"
DEFAULT_FILE: Final = "model.tflite"
_SUFFIX: Final = ".tflite"
_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")
_NAMES: Final = "a model's name has up to 128 letters, digits, '_', '-' and '.'"
_VERSION: Final = re.compile(r"[1-9][0-9]{0,17}")
_MAX_CONFIG_BYTES: Final = 1 << 20
#: How many entries of a folder are read.
_MAX_ENTRIES: Final = 10_000

_SEALS: Final = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE

_OPENAT2: Final = 437
_RESOLVE_NO_MAGICLINKS: Final = 0x02
_RESOLVE_BENEATH: Final = 0x08


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A model in a repository.

    Attributes:
        name: the name of the model.
        root: descriptor of the repository.
        is_folder: whether it is a folder, or else a file.
        versions: the versions that are there, in ascending order.
        files: the files that a client has given in place of those of a folder, by path.
        is_ambiguous: whether other repositories have a model of this name, too, so that it is
            unknown which of them is meant.
    """

    name: str
    root: int
    is_folder: bool
    versions: tuple[int, ...]
    files: dict[str, bytes] = {}
    is_ambiguous: bool = False


class Repository:
    """The models in several folders. Closed by `close`.

    Args:
        roots: the folders; one that is given twice counts once.

    Raises:
        BadState: a folder cannot be opened.
    """

    def __init__(self, roots: Sequence[Path]) -> None:
        self._cleanup = contextlib.ExitStack()
        self._roots: list[int] = []
        for root in roots:
            try:
                descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except OSError as error:
                self.close()
                raise BadState(f"the repository {root} cannot be opened: {error.strerror or error}") from None
            self._cleanup.callback(os.close, descriptor)
            if not any(os.path.sameopenfile(descriptor, other) for other in self._roots):
                self._roots.append(descriptor)

    def close(self) -> None:
        """Closes the folders."""
        self._cleanup.close()

    def models(self) -> dict[str, Found]:
        """Returns the models that are there now, by name."""
        found: dict[str, Found] = {}
        for root in self._roots:
            for name in _entries(root):
                model = name.removesuffix(_SUFFIX)
                if _NAME.fullmatch(model) and model not in found:
                    with contextlib.suppress(ServiceError):
                        found[model] = self.find(model)
        return found

    def unserved(self) -> Iterator[tuple[str, str]]:
        """Yields the names of `.tflite` files in the folders that are no models, and why."""
        for root in self._roots:
            for name in _entries(root):
                model = name.removesuffix(_SUFFIX)
                if model == name:
                    continue
                if not _NAME.fullmatch(model):
                    yield name, _NAMES
                    continue
                try:
                    os.close(open_beneath(root, name, os.O_RDONLY))
                except OSError as error:
                    leaves = error.errno in (errno.EXDEV, errno.ELOOP)
                    yield name, "it leads out of the repository" if leaves else str(error.strerror)

    def states(self) -> dict[str, object]:
        """Returns the models that are there, each with what differs when one of its files does.

        Raises:
            OSError: a folder cannot be read, so that it is unknown what is there.
        """
        for root in self._roots:
            _require_readable(root)
        return {name: (found.is_ambiguous, self.state_of(name)) for name, found in self.models().items()}

    def find(self, name: str) -> Found:
        """Returns a model.

        Raises:
            ServiceError: there is none of this name.
        """
        if not _NAME.fullmatch(name):
            raise not_polled(name, _NAMES, Status.INVALID)
        reason = "there is no such model"
        places: list[Found] = []
        for root in self._roots:
            found = _found_in(root, name)
            if isinstance(found, str):
                reason = found
            elif found is not None:
                places.append(found)
        if not places:
            raise not_polled(name, reason, Status.NOT_FOUND)
        return places[0] if len(places) == 1 else msgspec.structs.replace(places[0], is_ambiguous=True)

    def config_text(self, found: Found) -> str:
        """Returns the text of a model's configuration; empty if it has none.

        Raises:
            ServiceError: it cannot be read, or is too large.
        """
        return self._text(found, CONFIG_FILE)

    def labels(self, found: Found, name: str) -> tuple[str, ...]:
        """Returns the lines of a file with the names of classes; none if there is no such file.

        Raises:
            ServiceError: it cannot be read, or is too large.
        """
        if not _NAME.fullmatch(name):
            raise ServiceError(Status.INVALID, f"label_filename of {found.name} is not the name of a file")
        return tuple(each.strip() for each in self._text(found, name).splitlines())

    def _text(self, found: Found, name: str) -> str:
        """Returns the text of a file in the folder of a model; empty if there is none."""
        if not found.is_folder:
            return ""
        if found.files:
            content = found.files.get(name, b"")
        else:
            try:
                descriptor = open_beneath(found.root, f"{found.name}/{name}", os.O_RDONLY)
            except FileNotFoundError:
                return ""
            except OSError as error:
                raise _unreadable(found, name, error) from None
            with os.fdopen(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise ServiceError(Status.INVALID, f"{name} of {found.name} is not a regular file")
                content = read_at_most(file, _MAX_CONFIG_BYTES)
        if len(content) > _MAX_CONFIG_BYTES:
            raise ServiceError(
                Status.INVALID, f"{name} of {found.name} has more than {_MAX_CONFIG_BYTES} bytes"
            )
        try:
            return content.decode()
        except UnicodeDecodeError:
            raise ServiceError(Status.INVALID, f"{name} of {found.name} is not UTF-8 text") from None

    def state_of(self, name: str) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Returns the paths of a model's files in the repository, each with its state."""
        try:
            found = self.find(name)
        except ServiceError:
            return ()
        paths = [f"{found.name}{_SUFFIX}"]
        with contextlib.suppress(OSError):
            descriptor = open_beneath(found.root, found.name, os.O_RDONLY | os.O_DIRECTORY)
            try:
                names = list(_entries(descriptor))
            finally:
                os.close(descriptor)
            paths = [f"{found.name}/{each}" for each in names if not _VERSION.fullmatch(each)]
            for each in names:
                if _VERSION.fullmatch(each):
                    paths += self._version_files(found, each)
        return tuple((each, _identity(found.root, each)) for each in paths)

    def _version_files(self, found: Found, version: str) -> list[str]:
        path = f"{found.name}/{version}"
        try:
            descriptor = open_beneath(found.root, path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            return [path]
        try:
            return [f"{path}/{each}" for each in _entries(descriptor)]
        finally:
            os.close(descriptor)

    def open_model(self, found: Found, version: int, file_name: str) -> int:
        """Opens the file of a version; the caller closes the descriptor.

        Raises:
            ServiceError: it cannot be opened.
        """
        inner = f"{version}/{file_name or DEFAULT_FILE}"
        if found.files:
            if inner not in found.files:
                raise not_polled(found.name, f"there is no file {inner}", Status.NOT_FOUND)
            return _in_memory(found.files[inner])
        path = f"{found.name}/{inner}"
        if not found.is_folder:
            path = found.name + _SUFFIX
        elif file_name and not _NAME.fullmatch(file_name):
            raise ServiceError(
                Status.INVALID, f"default_model_filename of {found.name} is not the name of a file"
            )
        try:
            return open_beneath(found.root, path, os.O_RDONLY)
        except FileNotFoundError:
            other = "" if file_name else f"; {CONFIG_FILE} has the name of another in default_model_filename"
            raise ServiceError(
                Status.NOT_FOUND, f"version {version} of the model {found.name} has no file {path}{other}"
            ) from None
        except OSError as error:
            raise _unreadable(found, f"version {version}", error) from None


def _found_in(root: int, name: str) -> Found | str | None:
    """Returns the model of a name in one repository; or why its folder is not a model."""
    reason = None
    with contextlib.suppress(OSError):
        descriptor = open_beneath(root, name, os.O_RDONLY | os.O_DIRECTORY)
        try:
            names = list(_entries(descriptor))
        finally:
            os.close(descriptor)
        versions = sorted(int(each) for each in names if _VERSION.fullmatch(each))
        if versions or CONFIG_FILE in names:
            return Found(name=name, root=root, is_folder=True, versions=tuple(versions))
        reason = f"its folder has neither a version, such as 1/{DEFAULT_FILE}, nor {CONFIG_FILE}"
    with contextlib.suppress(OSError):
        os.close(open_beneath(root, name + _SUFFIX, os.O_RDONLY))
        return Found(name=name, root=root, is_folder=False, versions=(1,))
    return reason


def check_name(name: str) -> None:
    """Raises ServiceError unless a client may ask for a model of this name."""
    if not name.strip():
        raise ServiceError(Status.INVALID, "Model name cannot be empty. Please enter a valid name to deploy.")
    if "/" in name or "\\" in name or name.strip() in (".", ".."):
        raise ServiceError(
            Status.INVALID, f"model name must not contain path traversal characters: {quoted(name)}"
        )


def given_files(name: str, files: Mapping[str, bytes], config_json: str | None) -> Found:
    """Returns a model whose files a client has given.

    Args:
        name: the name of the model, see `check_name`.
        files: by path in the folder of the model.
        config_json: its configuration, without which they are refused.

    Raises:
        ServiceError: a path is none of a model's files, or the configuration is missing.
    """
    if not _NAME.fullmatch(name):
        raise not_polled(name, _NAMES, Status.INVALID)
    if config_json is None:
        raise not_polled(name, "files need a configuration, in the parameter config", Status.INVALID)
    versions: set[int] = set()
    for path in files:
        version, slash, file_name = path.rpartition("/")
        if not _NAME.fullmatch(file_name) or (slash and not _VERSION.fullmatch(version)):
            raise not_polled(
                name, f"the file {quoted(path)} is not of the form VERSION/NAME or NAME", Status.INVALID
            )
        if slash:
            versions.add(int(version))
    return Found(name=name, root=-1, is_folder=True, versions=tuple(sorted(versions)), files=dict(files))


def not_polled(name: str, reason: str, status: Status) -> ServiceError:
    """Returns the error for a model that cannot be loaded as it is in the repository."""
    return ServiceError(
        status, f"failed to load {quoted(name)}, failed to poll from model repository: {reason}"
    )


def _in_memory(content: bytes) -> int:
    """Returns the descriptor of a file that has this content, and cannot be changed."""
    descriptor = os.memfd_create("neurald-model", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _identity(root: int, path: str) -> tuple[int, ...]:
    """Returns what changes when a file below a folder changes."""
    try:
        descriptor = open_beneath(root, path, os.O_RDONLY)
    except OSError:
        return ()
    try:
        status = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def _unreadable(found: Found, what: str, error: OSError) -> ServiceError:
    status = Status.NOT_FOUND if error.errno == errno.ENOENT else Status.UNAVAILABLE
    return ServiceError(status, f"{what} of the model {found.name} cannot be read: {error.strerror}")


def _require_readable(directory: int) -> None:
    """Raises OSError if a folder cannot be read."""
    os.listdir(directory)


def _entries(directory: int) -> Iterator[str]:
    """Yields the names in a folder, in order."""
    try:
        names = os.listdir(directory)
    except OSError:
        return
    yield from sorted(names)[:_MAX_ENTRIES]


def open_beneath(root: int, path: str, flags: int) -> int:
    """Opens a file below a directory; a path or symbolic link that leaves it is refused.

    Raises:
        OSError: it cannot be opened (EXDEV if it would leave the directory). The message has no
            path.
    """
    how = struct.pack(
        "=QQQ", flags | os.O_CLOEXEC | os.O_NONBLOCK, 0, _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS
    )
    return system_call(_OPENAT2, root, os.fsencode(path), how, len(how))
