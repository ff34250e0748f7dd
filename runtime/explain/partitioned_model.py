"""The devices that were considered for a model, the choice among them, and its explanation."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from neurald.hal.model.model import Model
from neurald.hal.model.types import Preference
from neurald.hal.records import replace
from neurald.runtime.model.branches import MAIN
from neurald.runtime.partitioning.groups import StepGroup
from neurald.runtime.partitioning.options import MIN_COST, Partitioning
from neurald.runtime.partitioning.overrides import Override
from neurald.runtime.partitioning.partitioner import PartitionResult, partition
from neurald.runtime.partitioning.placement import Candidate, Placement

if TYPE_CHECKING:
    # Imported on demand: most programs never ask for an explanation.
    from neurald.runtime.explain.explanation import Explanation


class PartitionedModel(Struct, frozen=True, kw_only=True):
    """The devices that were considered for a model, and the result of the partitioning.

    Attributes:
        candidates: the devices.
        result: the result of the partitioning.
        preference, partitioning: the preference and partitioning that led to it.
    """

    candidates: tuple[Candidate, ...]
    result: PartitionResult
    preference: Preference = Preference.FAST_SINGLE_ANSWER
    partitioning: Partitioning = Partitioning(policy=MIN_COST)

    def explain(self, model: Model, fallback: str, notes: Iterable[str]) -> "Explanation":
        """Explains the device choice for every operation.

        Args:
            model: the model that was partitioned.
            fallback: why the whole model went to the CPU device; empty if it did not.
            notes: one line for each event since compilation.
        """
        cpu = next((n for n, candidate in enumerate(self.candidates) if candidate.is_cpu), None)
        result = self.on_device(model, cpu, fallback) if fallback and cpu is not None else self.result
        from neurald.runtime.explain.explanation import explain

        return explain(model, self.candidates, result, notes)

    def what_if(self, model: Model, fallback: str, rules: Sequence[Override]) -> "Explanation":
        """Explains what further rules would change.

        Args:
            model: the model that was partitioned.
            fallback: why the whole model went to the CPU device; empty if it did not.
            rules: the rules in addition to those of the partitioning.

        Raises:
            BadData: the rules contradict each other or the devices.
        """
        from neurald.runtime.explain.explanation import compare, explain

        wanted = replace(self.partitioning, overrides=(*self.partitioning.overrides, *rules))
        result = partition(model, self.candidates, self.preference, wanted)
        before = self.explain(model, fallback, ())
        return compare(before, explain(model, self.candidates, result), ", ".join(map(str, rules)))

    def on_device(self, model: Model, index: int, reason: str) -> PartitionResult:
        """Returns the result in which a candidate runs the whole model, for a reason."""
        candidate = self.candidates[index]
        rejected = {n: reason for n in range(len(self.candidates)) if n != index}
        count = len(model.main.operations)
        name = "the CPU device" if candidate.is_cpu else candidate.name
        placement = Placement(
            device=index, reason=f"{name} runs the whole model: {reason}", rejected=rejected
        )
        everything = StepGroup(graph=MAIN, device=index, operations=tuple(range(count)))
        return PartitionResult(
            groups=(everything,),
            placements={MAIN: (placement,) * count},
            predicted_s=self.result.predicted_s,
        )
