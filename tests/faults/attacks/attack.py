"""Interface of attacks, which run step by step in a separate process."""

import abc
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Target of an attack.

    address: of the daemon, which an honest client uses at the same time.
    """

    address: str
    process: int
    folder: Path


class Attack(abc.ABC):
    """Class of attacks: `start`, then `step` repeatedly, then `stop`.

    Args:
        target: the daemon.
        intensity: the share of the harm that is known to cause damage: 1.0 in full runs, less if
            time is short.

    Attributes:
        name: by which it is selected.
        options: command line options of the attacked daemon.
        listen: the address of that daemon; None for a UNIX socket.
        descriptors: that daemon's limit on descriptors; None for no limit.
        most_ratio: the permitted growth factor of an honest client's p99.
        most_bytes: the permitted growth of the daemon's memory.
        outcomes: counted outcomes of the attack.
        wrong: failures.
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
        """Prepares the attack without causing harm yet."""

    @abc.abstractmethod
    def step(self) -> None:
        """Causes harm for at most about a second."""

    @abc.abstractmethod
    def stop(self) -> None:
        """Releases everything."""

    def scaled(self, most: int) -> int:
        """Scales a number by the intensity; returns at least one."""
        return max(1, round(most * self.intensity))

    def expect(self, holds: bool, otherwise: str) -> None:
        """Records a failure, once, unless `holds` is true."""
        if not holds and otherwise not in self.wrong:
            self.wrong.append(otherwise)
