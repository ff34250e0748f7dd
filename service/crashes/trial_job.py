"""Defines the task of a sacrificial process, and its report.

The service manager needs no more of `neurald.service.crashes.trial`, which imports what models
need.
"""

import msgspec

from neurald.hal.crashes.pattern import CrashPattern
from neurald.service.sandbox.mode import SandboxMode


class TrialJob(msgspec.Struct, frozen=True, kw_only=True):
    """The task of a sacrificial process.

    Attributes:
        driver: the driver that died.
        version: the version of it; another one is not tried.
        outline: the outline of the model, see `neurald.hal.crashes.outline`.
        address: the address of the driver, whose sandbox the process enters.
        sandbox, writable, readable: as for the driver.
        hangs: it did not die by itself, but hung: a part that takes too long counts as one that
            kills.
        trial_s: how long a part may take.
        total_s: how long the search may take.
        memory_bytes: how much memory a child may take.
    """

    driver: str
    version: str
    outline: bytes
    address: str
    sandbox: SandboxMode
    writable: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    hangs: bool = False
    trial_s: float = 15.0
    total_s: float = 120.0
    memory_bytes: int = 4 << 30


class TrialReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a sacrificial process.

    Attributes:
        kills: True if the model killed a child.
        pattern: the pattern of the smallest part that does; None if it does not kill.
        trials: how many children were started.
        is_complete: False if the time ran out before the search ended.
        problem: why nothing could be tried; empty if it could.
    """

    kills: bool = False
    pattern: CrashPattern | None = None
    trials: int = 0
    is_complete: bool = True
    problem: str = ""
