"""All attacks by name."""

from collections.abc import Mapping

from faults.attacks.attack import Attack
from faults.attacks.kinds.blocking_fences import BlockingFences
from faults.attacks.kinds.changed_cache_files import ChangedCacheFiles
from faults.attacks.kinds.compile_bombs import CompileBombs
from faults.attacks.kinds.crowded_threads import CrowdedThreads
from faults.attacks.kinds.deadline_numbers import DeadlineNumbers
from faults.attacks.kinds.endless_executions import EndlessExecutions
from faults.attacks.kinds.exhausted_descriptors import ExhaustedDescriptors
from faults.attacks.kinds.foreign_users import ForeignUsers
from faults.attacks.kinds.forks import Forks
from faults.attacks.kinds.hoarded_memory import ManySessions, RepeatedMappings, SwellingModels
from faults.attacks.kinds.hogging_processes import HoggingProcesses
from faults.attacks.kinds.hostile_files import HostileFiles
from faults.attacks.kinds.late_executions import LateExecutions
from faults.attacks.kinds.planted_links import PlantedLinks
from faults.attacks.kinds.small_faults import (
    EndingProcesses,
    ExhaustedAddressSpace,
    FailedStarts,
    UnreadResults,
)
from faults.attacks.kinds.stalled_streams import Connections, StalledReads, StalledReflection, StalledWrites
from faults.attacks.kinds.submessages import Submessages

ATTACKS: Mapping[str, type[Attack]] = {
    attack.name: attack
    for attack in (
        Forks,
        CrowdedThreads,
        HoggingProcesses,
        DeadlineNumbers,
        Submessages,
        StalledReflection,
        StalledWrites,
        StalledReads,
        Connections,
        BlockingFences,
        SwellingModels,
        RepeatedMappings,
        ManySessions,
        ForeignUsers,
        PlantedLinks,
        EndlessExecutions,
        CompileBombs,
        ExhaustedDescriptors,
        ChangedCacheFiles,
        HostileFiles,
        LateExecutions,
        ExhaustedAddressSpace,
        FailedStarts,
        UnreadResults,
        EndingProcesses,
    )
}
