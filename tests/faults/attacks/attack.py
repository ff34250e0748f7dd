"""What every attack is: an object that does harm, step by step, in a process of its own."""

import abc
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is attacked.

    Attributes:
        address: of the daemon, which an honest client uses at the same time.
        process: its id.
        folder: for files and sockets of the attack, with a short path.
    """

    address: str
    process: int
    folder: Path


class Attack(abc.ABC):
    """One class of attacks: `start`, then `step` again and again, then `stop`.

    Args:
        target: the daemon.
        intensity: the share of the harm that is known to have done damage: 1.0 at length, less where time is short.

    Attributes:
        name: by which it is chosen.
        options: of the command line of the daemon that it attacks.
        listen: where that daemon listens; None for a UNIX socket.
        descriptors: how many that daemon may have; None for as many as it wants.
        most_ratio: by how much an honest client's p99 may grow.
        most_bytes: by how much the memory of the daemon may grow meanwhile.
        outcomes: what came of the attack, counted.
        wrong: what must not have happened.
    """

    name: ClassVar[str]
    options: ClassVar[Sequence[str]] = ()
    listen: ClassVar[str | None] = None
    descriptors: ClassVar[int | None] = None
    most_ratio: ClassVar[float] = 2.0
    most_bytes: ClassVar[int] = 512 * MIB

    def __init__(self, target: Target, intensity: float) -> None:
        self.target = target
        self.intensity = intensity
        self.outcomes: Counter[str] = Counter()
        self.wrong: list[str] = []

    @abc.abstractmethod
    def start(self) -> None:
        """Gets ready; does no harm yet."""

    @abc.abstractmethod
    def step(self) -> None:
        """Does harm for about a second at most."""

    @abc.abstractmethod
    def stop(self) -> None:
        """Lets go of everything."""

    def scaled(self, most: int) -> int:
        """How many of `most` the intensity asks for; at least one."""
        return max(1, round(most * self.intensity))

    def expect(self, holds: bool, otherwise: str) -> None:
        """Notes what is wrong unless it holds; once each."""
        if not holds and otherwise not in self.wrong:
            self.wrong.append(otherwise)
