"""All attacks by name."""

from collections.abc import Mapping

from faults.attacks.attack import Attack
from faults.attacks.blocking_fences import BlockingFences
from faults.attacks.changed_cache_files import ChangedCacheFiles
from faults.attacks.compile_bombs import CompileBombs
from faults.attacks.crowded_threads import CrowdedThreads
from faults.attacks.deadline_numbers import DeadlineNumbers
from faults.attacks.endless_executions import EndlessExecutions
from faults.attacks.exhausted_descriptors import ExhaustedDescriptors
from faults.attacks.foreign_users import ForeignUsers
from faults.attacks.forks import Forks
from faults.attacks.hoarded_memory import ManySessions, RepeatedMappings, SwellingModels
from faults.attacks.hogging_processes import HoggingProcesses
from faults.attacks.hostile_files import HostileFiles
from faults.attacks.late_executions import LateExecutions
from faults.attacks.planted_links import PlantedLinks
from faults.attacks.small_faults import EndingProcesses, ExhaustedAddressSpace, FailedStarts, UnreadResults
from faults.attacks.stalled_streams import Connections, StalledReads, StalledReflection, StalledWrites
from faults.attacks.submessages import Submessages

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
