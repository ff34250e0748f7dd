"""Defines the options that control how a model is split over devices."""

from enum import IntEnum
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import force_setattr

from neurald.hal.api_arguments import instance, integer, items, member
from neurald.hal.errors import BadData
from neurald.hal.process.environment import environment_variable
from neurald.runtime.partitioning.overrides import Override

#: The policy that places operations by Android's scores and groups them with Android's queues.
ANDROID = "android"

#: The policy of Tengine, which cuts the model where a single device cannot run an operation.
TENGINE = "tengine"

#: The policy that minimises what the whole plan takes: with operations, launches, transfers,
#: overlap.
MIN_COST = "min_cost"

POLICY_NAMES = (MIN_COST, ANDROID, TENGINE)

#: Environment variable: the policy of compilations that set none.
POLICY_VARIABLE = "NEURALD_POLICY"


def default_partitioning() -> "Partitioning":
    """Returns the partitioning of a compilation that sets none."""
    return _of_policy(default_policy())


@lru_cache(maxsize=8)
def _of_policy(policy: str) -> "Partitioning":
    return Partitioning(policy=policy)


def default_policy() -> str:
    """Returns the policy of compilations that set none: min_cost, or what NEURALD_POLICY says.

    Raises:
        BadData: it says something else.
    """
    name = environment_variable(POLICY_VARIABLE) or MIN_COST
    if name not in POLICY_NAMES:
        raise BadData(f"{POLICY_VARIABLE} is {name!r}; one of {', '.join(POLICY_NAMES)} is expected")
    return name


class PartitioningMode(IntEnum):
    """Android NN's partitioning modes."""

    #: The CPU device runs everything; no driver is asked.
    NONE = 0
    #: The model is split, and the CPU device takes over from a device that fails.
    WITH_FALLBACK = 1
    #: The model is split, and a device's error is raised to the caller.
    WITHOUT_FALLBACK = 2


class Partitioning(Struct, frozen=True, kw_only=True):
    """Argument of `CompilationBuilder.set_partitioning`.

    Attributes:
        policy: how devices are chosen and operations grouped: "min_cost", "android" or "tengine";
            None for the default, which is "min_cost" unless NEURALD_POLICY says otherwise.
        mode: whether the model is split, and whether the CPU device takes over from a device that
            fails.
        max_partitions: maximum number of steps per device; a device keeps its largest steps, and
            the CPU device runs the others.
        min_operations: minimum number of operations of a step; smaller steps go to the CPU device.
        require_full_delegation: whether compiling fails if the CPU device would run an operation.
        overrides: rules for single operations; see `neurald.runtime.partitioning.overrides`.

    Raises:
        BadData: there is no such policy or mode, or a limit is not positive.
    """

    policy: str | None = None
    mode: PartitioningMode = PartitioningMode.WITH_FALLBACK
    max_partitions: int | None = None
    min_operations: int = 1
    require_full_delegation: bool = False
    overrides: tuple[Override, ...] = ()

    def __post_init__(self) -> None:
        if self.policy is None:
            force_setattr(self, "policy", default_policy())
        if instance(self.policy, str, "the partitioning policy") not in POLICY_NAMES:
            raise BadData(
                f"the partitioning policy is {self.policy!r}; one of {', '.join(POLICY_NAMES)} is expected"
            )
        # The mode may also be given as an integer.
        force_setattr(self, "mode", member(self.mode, PartitioningMode, "the partitioning mode"))
        if self.max_partitions is not None and integer(self.max_partitions, "max_partitions") < 1:
            raise BadData(f"max_partitions is {self.max_partitions}; it must be at least 1, or None")
        if integer(self.min_operations, "min_operations") < 1:
            raise BadData(f"min_operations is {self.min_operations}; it must be at least 1")
        for override in items(self.overrides, "overrides", "a sequence of overrides"):
            if not isinstance(override, Override):
                raise BadData(f"{override!r} is not an override; create one with pin(), forbid() or prefer()")
