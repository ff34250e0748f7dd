"""The limits of what a daemon lends to its clients.

A request beyond a limit is refused, and the error names the limit.
"""

import pwd
import re
import threading
from collections.abc import Iterable

from msgspec import Struct, field

from neurald.hal.errors import BadData, ResourceExhaustedTransient
from neurald.hal.process.memory import machine
from neurald.hal.records import replace

_NUMBER = re.compile(r"([0-9]{1,15})(|Ki|Mi|Gi|Ti)B?", re.ASCII)
#: The value of a limit that is derived from others unless an operator sets it.
_DERIVED = (1 << 63) - 1
#: How weights are written, and the largest one.
_WEIGHT = "weight."
_CERTIFICATE = "cert:"
MAX_WEIGHT = 1000
_FACTORS = {"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}


def _session_memory() -> int:
    return min(8 << 30, machine.memory_bytes() // 2)


def _total_memory() -> int:
    return machine.memory_bytes() * 5 // 8


def _user_descriptors() -> int:
    return max(1, machine.descriptors() // 4)


def _total_descriptors() -> int:
    return max(1, machine.descriptors() // 2)


class Limits(Struct, frozen=True, kw_only=True):
    """Limits of a daemon.

    Sessions, memory and descriptors are counted in total and for each user, calls for each user,
    everything else for each session. Limits of messages are the same for every daemon:
    `neurald.hal.rpc.transport.status` limits their bytes, `neurald.hal.validation.model_rules` and
    `neurald.hal.rpc.wire.model` the operands, operations and graphs of a model.

    Attributes:
        sessions: open sessions of all clients together.
        user_sessions: open sessions of one user; of clients on other hosts, of one host.
        calls: calls of a session that the device works on at the same time; fewer than the daemon
            has threads, so that one client cannot take them all.
        user_calls: calls of one user that the device works on at the same time; one call of each
            session is exempt. Neither limit counts what native code serves, see `NativeGate`.
        prepared_models: prepared models that a session holds.
        memories: memories that a session holds: of the client, of the device and for results.
        fences: fences of a session that wait to be used.
        fenced_executions: fenced executions of a session whose results were not taken yet.
        bursts: open rings of a session, those of bursts included.
        memory_bytes: memory of one session: its memories, those of its prepared models, and those
            of its calls while they run.
        user_memory_bytes: memory of all sessions of one user together. A small part of it is
            guaranteed to each session. See `user_memory_limit` for the value that applies where it
            is not set.
        total_memory_bytes: memory of all sessions together. The address space of a daemon is
            limited by it as well.
        user_descriptors: descriptors that all sessions of one user keep open together: of memories,
            fences and rings.
        total_descriptors: descriptors that all sessions keep open together.
        model_bytes: constants of one model.
        execution_s: the time limit of an execution without an earlier deadline. An execution that
            takes longer hangs: its client is told that the driver is dead, and no models are taken
            from any client until it ends.
        grace_s: how much longer than its own deadline an execution may take before it hangs.
        compilers: models of all clients that are compiled at the same time, by a device that
            compiles in other processes; further ones wait. A few more may run beside those that
            take long.
        compile_s: the time that compiling one model may take, in seconds of wall-clock time and in
            seconds of processor time.
        compile_bytes: the memory that a process which compiles a model may take.
        weights: the weights of users, whose share of the device is that many times the share of
            others.
    """

    sessions: int = 256
    user_sessions: int = 192
    calls: int = 48
    user_calls: int = 128
    prepared_models: int = 256
    memories: int = 1024
    fences: int = 256
    fenced_executions: int = 256
    bursts: int = 64
    memory_bytes: int = field(default_factory=_session_memory)
    user_memory_bytes: int = _DERIVED
    total_memory_bytes: int = field(default_factory=_total_memory)
    user_descriptors: int = field(default_factory=_user_descriptors)
    total_descriptors: int = field(default_factory=_total_descriptors)
    model_bytes: int = 2 << 30
    execution_s: int = 600
    grace_s: int = 1
    compilers: int = 2
    compile_s: int = 600
    compile_bytes: int = field(default_factory=_session_memory)
    weights: tuple[tuple[int | str, int], ...] = ()

    @property
    def user_memory_limit(self) -> int:
        """The memory that all sessions of one user may have together, in bytes.

        That is `user_memory_bytes`, or else half of the machine's memory. If `memory_bytes` was
        lowered it is that much, because a client could otherwise have that much again with every
        session that it opens.
        """
        if self.user_memory_bytes != _DERIVED:
            return self.user_memory_bytes
        if self.memory_bytes < _session_memory():
            return self.memory_bytes
        return max(self.memory_bytes, machine.memory_bytes() // 2)


class UserCalls:
    """Counts the calls under way of all sessions of one user. Thread-safe."""

    def __init__(self, limits: Limits) -> None:
        self._limit = limits.user_calls
        self._lock = threading.Lock()
        self._count = 0

    def begin(self, *, is_first: bool) -> None:
        """Counts one more call.

        Args:
            is_first: whether its session has no other call. It may have one, whatever other
                sessions of the user do.

        Raises:
            ResourceExhaustedTransient: there are too many.
        """
        with self._lock:
            if self._count >= self._limit and not is_first:
                raise ResourceExhaustedTransient(
                    f"{self._count} calls of one user are under way; a user may have {self._limit} (user_calls)"
                )
            self._count += 1

    def end(self) -> None:
        """Ends a call that was counted."""
        with self._lock:
            self._count -= 1


def parse_limits(settings: Iterable[str]) -> Limits:
    """Returns the default limits with some of them changed.

    Args:
        settings: each `NAME=NUMBER`, such as `sessions=8` or `memory_bytes=512MiB`, or
            `weight.USER=NUMBER` with the name or number of a user, or `cert:NAME` for the holder of
            a certificate.

    Raises:
        BadData: there is no such limit or user, or the value is not a positive number.
    """
    limits = Limits()
    names = [name for name in Limits.__struct_fields__ if name != "weights"]
    for setting in settings:
        name, _, text = setting.partition("=")
        is_weight = name.startswith(_WEIGHT)
        if name not in names and not is_weight:
            raise BadData(f"there is no limit {name!r}; the limits are {', '.join(names)}, and {_WEIGHT}USER")
        match = _NUMBER.fullmatch(text)
        is_size = name.endswith("_bytes") and not is_weight
        value = int(match[1]) * _FACTORS[match[2]] if match and (is_size or not match[2]) else 0
        if not value:
            expected = f"size, such as {name}=512MiB" if is_size else f"number, such as {name}=16"
            raise BadData(f"limit {setting!r} is not valid; {name} takes a positive {expected}")
        if is_weight:
            if value > MAX_WEIGHT:
                raise BadData(f"limit {setting!r} is not valid; a weight is at most {MAX_WEIGHT}")
            user = _user(name.removeprefix(_WEIGHT))
            others = tuple(each for each in limits.weights if each[0] != user)
            limits = replace(limits, weights=(*others, (user, value)))
        else:
            limits = replace(limits, **{name: value})
    return limits


def _user(text: str) -> int | str:
    """Returns a user as sessions have it.

    Raises:
        BadData: there is no such user.
    """
    if text.startswith(_CERTIFICATE) and len(text) > len(_CERTIFICATE):
        return certificate_user(text.removeprefix(_CERTIFICATE))
    if text.isascii() and text.isdigit() and len(text) <= 10:
        return int(text)
    try:
        return pwd.getpwnam(text).pw_uid
    except (KeyError, ValueError):
        raise BadData(
            f"there is no user {text!r}; the name or number of a user is expected, or {_CERTIFICATE}NAME"
        ) from None


def certificate_user(name: str) -> str:
    """Returns the user that the holder of a certificate counts as."""
    return f"certificate {name}"
