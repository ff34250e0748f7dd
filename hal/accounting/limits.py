"""How much a daemon lends to its clients. What is beyond a limit is refused, and the refusal says which limit it was."""

import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace

from neurald.hal.errors import BadData, ResourceExhaustedTransient
from neurald.hal.process import machine

_NUMBER = re.compile(r"([0-9]{1,15})(|Ki|Mi|Gi|Ti)B?", re.ASCII)
#: Stands for a limit that follows from others as long as nobody sets it.
_FOLLOWS = (1 << 63) - 1
_FACTORS = {"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}


def _session_memory() -> int:
    return min(8 << 30, machine.memory_bytes() // 2)


def _total_memory() -> int:
    return machine.memory_bytes() * 5 // 8


def _user_descriptors() -> int:
    return max(1, machine.descriptors() // 4)


def _total_descriptors() -> int:
    return max(1, machine.descriptors() // 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Sessions, memory and descriptors are counted in all and for each user, calls for each user; the rest for each session.

    What a message may hold is the same for every daemon: `neurald.hal.rpc.transport.status` limits its bytes, `neurald.hal.validation.model_rules` and
    `neurald.hal.rpc.wire.model` the operands, operations and graphs of a model.

    Attributes:
        sessions: that are open, of all clients together.
        user_sessions: that are open, of one user; of clients on other hosts, of one host.
        calls: that the device works on at the same time; fewer than the daemon has threads, so that one client cannot take
            them all.
        user_calls: that the device works on at the same time, of one user; one call of each session is free of it.
        prepared_models: that are held.
        memories: that are held: of the client, of the device and for results.
        fences: that wait to be used.
        fenced_executions: that are open.
        bursts: that are open.
        memory_bytes: of one session: its memories, what its prepared models take, and what its calls take while they run.
        user_memory_bytes: of all sessions of one user together. A session always has a small part of it to itself. See
            `memory_of_user` for what holds where it is not set.
        total_memory_bytes: of all sessions together. The address space of a daemon is limited by it as well.
        user_descriptors: that the sessions of one user keep open together: of memories, fences and bursts.
        total_descriptors: that all sessions keep open together.
        model_bytes: of the constants of one model.
        execution_s: that an execution may take which has no earlier deadline. One that takes longer hangs: its client is told that
            the driver is dead, and nobody's models are taken until it ends after all.
        compilers: models that are compiled at the same time, of all clients together, by a device that compiles in other
            processes; more wait for their turn. A few more may be beside those that take long.
        compile_s: that compiling one model may take, in seconds that pass and in seconds of a processor.
        compile_bytes: of memory that a process which compiles a model may take.
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
    user_memory_bytes: int = _FOLLOWS
    total_memory_bytes: int = field(default_factory=_total_memory)
    user_descriptors: int = field(default_factory=_user_descriptors)
    total_descriptors: int = field(default_factory=_total_descriptors)
    model_bytes: int = 2 << 30
    execution_s: int = 600
    compilers: int = 2
    compile_s: int = 600
    compile_bytes: int = field(default_factory=_session_memory)

    @property
    def memory_of_user(self) -> int:
        """What all sessions of one user may have together: `user_memory_bytes`, or else half of the machine's memory.

        Where `memory_bytes` was lowered it is as much as that, or a client could have it again for every session that it opens.
        """
        if self.user_memory_bytes != _FOLLOWS:
            return self.user_memory_bytes
        if self.memory_bytes < _session_memory():
            return self.memory_bytes
        return max(self.memory_bytes, machine.memory_bytes() // 2)


class UserCalls:
    """The calls of all sessions of one user that are under way. Thread-safe."""

    def __init__(self, limits: Limits) -> None:
        self._most = limits.user_calls
        self._lock = threading.Lock()
        self._count = 0

    def begin(self, *, is_first: bool) -> None:
        """Counts one more.

        Args:
            is_first: whether its session has none yet. It may have one, whatever others of the user do.

        Raises:
            ResourceExhaustedTransient: there are too many.
        """
        with self._lock:
            if self._count >= self._most and not is_first:
                raise ResourceExhaustedTransient(
                    f"{self._count} calls of one user are under way; a user may have {self._most} (user_calls)"
                )
            self._count += 1

    def end(self) -> None:
        """After a call that has begun."""
        with self._lock:
            self._count -= 1


def parse_limits(settings: Iterable[str]) -> Limits:
    """The default limits with some changed.

    Args:
        settings: each `NAME=NUMBER`, such as `sessions=8` or `memory_bytes=512MiB`.

    Raises:
        BadData: there is no such limit, or that is no positive number.
    """
    limits = Limits()
    names = [each.name for each in fields(Limits)]
    for setting in settings:
        name, _, text = setting.partition("=")
        if name not in names:
            raise BadData(f"there is no limit {name!r}; there are {', '.join(names)}")
        match = _NUMBER.fullmatch(text)
        is_size = name.endswith("_bytes")
        value = int(match[1]) * _FACTORS[match[2]] if match and (is_size or not match[2]) else 0
        if not value:
            expected = f"size, such as {name}=512MiB" if is_size else f"number, such as {name}=16"
            raise BadData(f"limit {setting!r} is not valid; {name} takes a positive {expected}")
        limits = replace(limits, **{name: value})
    return limits
