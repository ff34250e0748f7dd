"""Restricts a driver process to the resources that a driver needs.

A process enters the sandbox before it loads anything else, since Landlock applies only to the
calling thread and to threads that are started later. It closes the sandbox before it runs any code
of the driver; from then on it cannot connect to anything.
"""

import contextlib
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from neurald.hal.errors import BadState
from neurald.hal.process.address import Address
from neurald.service.sandbox import capabilities, landlock, seccomp
from neurald.service.sandbox.mode import SandboxMode
from neurald.service.sandbox.no_new_privs import set_no_new_privs
from neurald.service.sandbox.readable_paths import listable_paths, readable_paths
from neurald.service.sandbox.rlimits import limit_resources
from neurald.service.sandbox.temporary_directory import TemporaryDirectory
from neurald.service.sandbox.vendor_caches import use_own_caches
from neurald.service.sandbox.writable_paths import daemon_directory, make_writable_paths, require_protected

logger = logging.getLogger(__name__)

#: The first version of each part of Landlock. The last part restricts signals and abstract sockets.
LANDLOCK_PARTS = (
    (1, "landlock-files"),
    (1, "landlock-reading"),
    (3, "landlock-truncation"),
    (4, "landlock-network"),
    (5, "landlock-devices"),
    (6, "landlock-signals"),
)
_SECCOMP = "seccomp"
_REFUSED = "the sandbox cannot be entered: {}; use --sandbox off to run without it"
_CAPABILITIES = "capabilities"
ALL_PARTS = ("no_new_privs", "rlimits", _CAPABILITIES, *(name for _, name in LANDLOCK_PARTS), _SECCOMP)


@dataclass(slots=True, kw_only=True)
class Sandbox:
    """The restrictions of a process.

    Attributes:
        mode: the requested mode.
        parts: the members of `ALL_PARTS` that are in force.
        temporary: the process's own directory for temporary files; None if it uses the shared one.
        is_closed: whether it can connect to nothing any more.
    """

    mode: SandboxMode
    parts: tuple[str, ...] = ()
    temporary: TemporaryDirectory | None = None
    is_closed: bool = False

    @property
    def missing(self) -> tuple[str, ...]:
        """The members of `ALL_PARTS` that are not in force."""
        return tuple(part for part in ALL_PARTS if part not in self.parts)

    @property
    def state(self) -> str:
        """The word "full", "partial" if parts are missing, or "off" if nothing is restricted."""
        if not self.parts:
            return "off"
        return "partial" if self.missing else "full"

    def close(self) -> None:
        """Forbids connections, unless they are forbidden already.

        Call this before code of the driver runs, and before clients are served.

        Raises:
            BadState: the kernel refuses.
        """
        if self.is_closed:
            return
        if _SECCOMP in self.parts:
            try:
                seccomp.forbid_connecting()
            except OSError as error:
                raise BadState(_REFUSED.format(error)) from None
        self.is_closed = True
        logger.info("sandbox %s: %s", self.mode, ", ".join(self.parts) or "nothing is restricted")

    def remove_temporary_files(self) -> None:
        """Removes the directory for temporary files; the restrictions remain."""
        if self.temporary is not None:
            self.temporary.remove()
            self.temporary = None


def enter(
    mode: SandboxMode,
    addresses: Sequence[Address],
    writable: Iterable[Path] = (),
    readable: Iterable[Path] = (),
    *,
    listable: Iterable[Path] = (),
    driver: str,
    is_own_process: bool,
) -> Sandbox:
    """Restricts this process permanently. It must have a single thread.

    Args:
        mode: the requested mode.
        addresses: the addresses that the process will serve; at the first one are its files.
        writable: paths that the driver writes to, in addition to those that all drivers write to.
        readable: paths that the driver reads, in addition to those that all drivers read.
        listable: directories whose entries it lists without reading them, in addition to those that
            all drivers list.
        driver: whose caches the process uses: the name of an installed driver, or its factory.
        is_own_process: whether the process runs nothing but the daemon; otherwise nothing is
            restricted.

    Raises:
        BadState: a part is missing and `mode` is FULL, the kernel refuses, or what the driver may
            write to contains what it must not change.
    """
    if mode is SandboxMode.OFF:
        return Sandbox(mode=mode)
    version = landlock.version()
    sandbox = Sandbox(mode=mode, parts=_available_parts(version) if is_own_process and _is_alone() else ())
    if mode is SandboxMode.FULL and sandbox.missing:
        cause = "this kernel lacks them" if sandbox.parts else "this process does more than serve a driver"
        raise BadState(
            f"--sandbox full: unavailable: {', '.join(sandbox.missing)}, since {cause}; the full sandbox "
            "requires Linux 6.12 on x86-64 or 64-bit Arm. --sandbox auto uses the parts that are available"
        )
    if not sandbox.parts:
        return sandbox
    sockets = daemon_directory(addresses[0])
    writable = [*make_writable_paths(addresses[0]), *writable]
    require_protected(path for path in writable if path != sockets)
    try:
        require_protected([sockets])
    except BadState as error:
        logger.warning("%s", error)
    ports = tuple(address.port for address in addresses if address.path is None)
    sandbox.temporary = TemporaryDirectory()
    own = sandbox.temporary.path
    try:
        caches = use_own_caches(driver, own)
        require_protected(caches)
        set_no_new_privs()
        limit_resources()
        if version:
            landlock.restrict(
                version,
                [*writable, own, *caches],
                [*readable_paths(driver), *readable],
                ports,
                listable=[*listable_paths(), *listable],
                emptied=[own.parent],
            )
        if _SECCOMP in sandbox.parts:
            seccomp.forbid(tcp=bool(ports))
        if _CAPABILITIES in sandbox.parts:
            # Last, since some of the above needs them.
            capabilities.drop_capabilities()
    except BadState:
        sandbox.remove_temporary_files()
        raise
    except (OSError, ValueError) as error:
        sandbox.remove_temporary_files()
        raise BadState(_REFUSED.format(error)) from None
    return sandbox


def _available_parts(version: int) -> tuple[str, ...]:
    """Returns the members of `ALL_PARTS` that the kernel has, with this version of Landlock."""
    parts = ["no_new_privs", "rlimits"]
    if capabilities.is_available():
        parts.append(_CAPABILITIES)
    parts += (name for since, name in LANDLOCK_PARTS if since <= version)
    if seccomp.is_available():
        parts.append(_SECCOMP)
    return tuple(parts)


def _is_alone() -> bool:
    """Returns True if the process has a single thread."""
    with contextlib.suppress(OSError):
        return len(tuple(Path("/proc/self/task").iterdir())) == 1
    return False
