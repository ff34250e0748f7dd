"""The settings of a compilation, as an application has made them."""

from typing import TYPE_CHECKING

from msgspec import Struct

from neurald.hal.device import Device
from neurald.hal.model.extension_attribute import AttributeValue
from neurald.hal.model.types import Preference, Priority
from neurald.runtime.execution.variables.state import State
from neurald.runtime.partitioning.options import Partitioning, PartitioningMode
from neurald.runtime.plan.preparer import Caching
from neurald.runtime.plan.progress import ProgressMonitor
from neurald.runtime.plan.startup import Startup, default_startup

if TYPE_CHECKING:
    from neurald.runtime.plan.provided_plan import ProvidedPlan


class CompilationSettings(Struct, frozen=True, kw_only=True):
    """The settings of a compilation; see the setters of `CompilationBuilder`.

    Attributes:
        devices: the only devices that may be used; None for no choice of the application.
        threads: the number of CPU threads of an execution; None to let the driver choose.
        strict: whether to enforce Android's rules for lists of devices.
        preference, priority: what compilation optimises for, and the priority of executions.
        timeout_s: the limit of the compile time; None for no limit.
        attributes: the compilation attributes of vendors' extensions.
        caching: where artifacts are stored; None for nowhere.
        caches_by_default: whether they are stored in the user's own cache instead.
        partitioning: how the model is split over devices.
        shared_state: the variables of another compilation; None for own ones.
        startup: whether to wait for optimised code; None for the default.
        monitor: calls the application while steps are prepared.
        verified_share: the share of the time for which executions are verified.
        plan, plan_note: a plan that was made before, and the note for explanations if it fits.
    """

    devices: tuple[Device, ...] | None
    threads: int | None
    strict: bool
    partitioning: Partitioning
    preference: Preference = Preference.FAST_SINGLE_ANSWER
    priority: Priority = Priority.MEDIUM
    timeout_s: float | None = None
    attributes: tuple[AttributeValue, ...] = ()
    caching: Caching | None = None
    caches_by_default: bool = True
    shared_state: State | None = None
    startup: Startup | None = None
    monitor: ProgressMonitor | None = None
    verified_share: float = 0.0
    plan: "ProvidedPlan | None" = None
    plan_note: str = ""

    @property
    def has_explicit_devices(self) -> bool:
        """True if the application chose the devices."""
        return self.devices is not None

    @property
    def may_fall_back(self) -> bool:
        """True if the CPU device may take over from others."""
        return self.devices is None and self.partitioning.mode is not PartitioningMode.WITHOUT_FALLBACK

    @property
    def caches(self) -> bool:
        """True if anything may be kept on disk."""
        return self.caches_by_default or self.caching is not None

    @property
    def chosen_startup(self) -> Startup:
        """The startup that is set, or else the default one."""
        return self.startup or default_startup(has_explicit_devices=self.has_explicit_devices)
