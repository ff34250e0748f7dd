"""Checks operations: every case of every signature, with several prepared models at a time.

A case runs three times: with its inputs, with others, and with its own again, from memories with
different layouts and random contents around the arguments. This detects devices that write outside
of outputs, leave parts of them unwritten, read beyond inputs, or keep state between executions.
Some of the cases that pass also run between guard pages.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from neurald.hal.device import Artifact, Device, PreparedModel, PrepareOptions
from neurald.hal.errors import DeadObject, Error
from neurald.hal.extension_support import refused_operations
from neurald.hal.memory.pool import Memory
from neurald.hal.validation.model_rules import operation_levels
from neurald.service.conformance.cases.case import Case, Signature, generate
from neurald.service.conformance.cases.depth import EVERY, Depth, default_depth
from neurald.service.conformance.cases.runner import (
    WAYS,
    Execute,
    Layout,
    bind,
    execute_options,
    prepare_options,
    synchronously,
    wrong,
)
from neurald.service.conformance.cases.variation import base, neighbours, reseeded, structural
from neurald.service.conformance.guard.run import GuardedRuns
from neurald.service.conformance.result import Outcome, Result

GROUP = "operations"
#: The group of results of cases between guard pages.
GUARD_PAGES = "guard pages"
#: Returns a description of what is wrong; "" if nothing is.
Check = Callable[[], str]
#: One of this many cases also runs in a burst and fenced.
_OTHER_WAYS = 8
#: Of this many passing cases of a signature, the first also runs between guard pages. Cases with
#: constants are counted separately.
_GUARD_PAGE_STRIDE = 8
#: Number of cases of a family that are prepared from the cache, at least.
_CACHED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """Case whose prepared model is kept while others are prepared and run."""

    case: Case
    prepared: PreparedModel
    artifact: Artifact | None


class OperationCheck:
    """Checks the operations of one device.

    Attributes:
        supported: cases that passed, for other checks.

    Args:
        device: any device.
        guarded: runs cases of the device between guard pages.
        only: the label of the only case to run, "" for all.
        is_thorough: whether all enumerated cases run, not only those of `default_depth`, and all
            passing cases also between guard pages.
    """

    def __init__(
        self, device: Device, guarded: GuardedRuns, only: str = "", *, is_thorough: bool = False
    ) -> None:
        self.supported: list[Case] = []
        self._device = device
        self._guarded_runs = guarded
        #: Number of passed cases of the signature, by whether they have constants.
        self._passed = {False: 0, True: 0}
        self._only = only
        self._is_thorough = is_thorough or bool(only)
        self._count = 0
        self._is_remote = device.is_remote

    def check(self, signature: Signature, seeds: range) -> Iterator[Result]:
        """Yields a result for each case of a signature.

        Those that always run, and random ones of these seeds.
        """
        depth = EVERY if self._is_thorough else default_depth(signature)
        self._passed = {False: 0, True: 0}
        for case in structural(signature, depth):
            if self._is_wanted(case.label):
                yield from self._results(case)
                if self._only:
                    return
        if depth.has_family:
            yield from self._family(signature, depth)
        for seed in seeds:
            if self._is_wanted(f"seed {seed}") and (drawn := generate(signature, seed)):
                for result in self._results(drawn):
                    yield replace(result, seed=seed)

    def _results(self, case: Case) -> Iterator[Result]:
        """Runs a case without keeping its prepared model."""
        result, _ = self._result(case)
        yield result
        yield from self._between_guard_pages(case, result)

    def _between_guard_pages(self, case: Case, result: Result) -> Iterator[Result]:
        """Runs a passed case between guard pages, if it is selected."""
        if result.outcome is not Outcome.PASSED:
            return
        has_constants = bool(case.model.pools)
        self._passed[has_constants] += 1
        if not self._is_thorough and self._passed[has_constants] % _GUARD_PAGE_STRIDE != 1:
            return
        detail = self._guarded_runs.wrong(case)
        if detail is not None:
            outcome = Outcome.FAILED if detail else Outcome.PASSED
            label = f"{case.label} (guard pages)"
            yield replace(result, group=GUARD_PAGES, label=label, outcome=outcome, detail=detail)

    def _is_wanted(self, label: str) -> bool:
        return not self._only or label == self._only

    def _family(self, signature: Signature, depth: Depth) -> Iterator[Result]:
        """Runs the base case and its neighbours, which the device must distinguish."""
        if self._only.startswith("seed "):
            return
        first = base(signature)
        if first is None:
            return
        result, kept = self._result(first)
        # Cases with other constants are only run beside the base model.
        chosen = (
            each
            for each in (neighbours(first, depth) if kept is not None else ())
            if not self._only or self._only.startswith(each.label)
        )
        listed = list(chosen) if self._only else chosen
        if self._only and not listed and not self._only.startswith(first.label):
            return
        yield result
        yield from self._between_guard_pages(first, result)
        if kept is None:
            return
        family = [kept]
        for neighbour in listed:
            result, other = self._result(neighbour)
            if result.outcome is Outcome.PASSED:
                result = self._again(kept, result, f"after {neighbour.label!r} had been prepared and run")
            yield result
            yield from self._between_guard_pages(neighbour, result)
            if other is not None:
                family.append(other)
        for each in family[1:]:
            yield self._again(each, _passed(each.case, " (again)"), "after its neighbours had been run")
        yield from self._from_cache(family)

    def _again(self, kept: _Kept, result: Result, when: str) -> Result:
        """Returns the result, or a failure if a prepared model's outputs have changed."""
        detail = self._guarded(lambda: self._run(kept.prepared, kept.case, synchronously, Layout.PACKED, 6))
        if not detail:
            return result
        label = kept.case.label
        return replace(result, outcome=Outcome.FAILED, detail=f"{label!r} went wrong {when}: {detail}")

    def _from_cache(self, family: list[_Kept]) -> Iterator[Result]:
        """Restores members of the family from artifacts, in reverse, while the others exist."""
        step = max(1, len(family) // _CACHED)
        for kept in reversed(family[::step] if not self._only else family):
            if kept.artifact is None:
                continue

            def restored(kept: _Kept = kept, artifact: Artifact = kept.artifact) -> str:
                prepared = self._device.prepare_model_from_cache(artifact, _keyed(kept.case))
                return self._run(prepared, kept.case, synchronously, Layout.PACKED, 8)

            detail = self._guarded(restored)
            result = _passed(kept.case, " (from the cache)")
            yield replace(result, outcome=Outcome.FAILED, detail=detail) if detail else result

    def _result(self, case: Case) -> tuple[Result, _Kept | None]:
        """Runs a case; returns the result, and the prepared case if it passed."""
        self._count += 1
        kept: list[_Kept] = []
        declined: list[str] = []
        detail = self._guarded(lambda: self._checked(case, kept, declined))
        result = _passed(case)
        if detail:
            return replace(result, outcome=Outcome.FAILED, detail=detail), None
        if declined:
            return replace(result, outcome=Outcome.DECLINED, detail=declined[0]), None
        self.supported.append(case)
        return result, kept[0]

    @staticmethod
    def _guarded(check: Check) -> str:
        """Returns what a check finds wrong; an in-process device may raise any exception."""
        try:
            return check()
        except Error as error:
            return f"{error.code.name}: {error}"
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    def _checked(self, case: Case, kept: list[_Kept], declined: list[str]) -> str:
        device = self._device
        (level,) = operation_levels(case.model)
        if level > device.feature_level:
            declined.append(f"{level.name} is newer than its feature level, {device.feature_level.name}")
            return ""
        refused = refused_operations(case.model, device)
        if refused:
            declined.append(refused[0])
            return ""
        answers = tuple(device.supported_operations(case.model))
        if len(answers) != 1:
            return f"{len(answers)} verdicts on one operation"
        if not answers[0].ok:
            declined.append(answers[0].reason)
            return _declined(device, case, answers[0].reason)
        prepared = device.prepare_model(case.model, _keyed(case))
        text = self._runs(prepared, case)
        if not text:
            artifact = prepared.artifact() if device.cache_files_needed else None
            kept.append(_Kept(case=case, prepared=prepared, artifact=artifact))
        return text

    def _runs(self, prepared: PreparedModel, case: Case) -> str:
        """Describes what goes wrong in the executions of a case."""
        other = reseeded(case, 1) or case
        for number, (each, layout) in enumerate(
            ((case, Layout.PACKED), (other, Layout.SCATTERED), (case, Layout.SINGLE))
        ):
            # Seeds 2n and 2n + 1 differ in every bit.
            text = self._run(prepared, each, synchronously, layout, number + 2 * (number // 2))
            if text:
                before = (
                    ""
                    if number == 0 or each is not case
                    else "the same inputs gave the right outputs before; "
                )
                return f"arguments {layout.value}: {before}{text}"
        for way, execute in WAYS.items() if self._count % _OTHER_WAYS == 0 else ():
            text = self._run(prepared, case, execute, Layout.PACKED, 10)
            if text:
                return f"{way}: {text}"
        return ""

    def _run(self, prepared: PreparedModel, case: Case, execute: Execute, layout: Layout, fill: int) -> str:
        # Remote devices use shared memory directly, and copy any other memory.
        allocate = Memory.allocate if self._is_remote and layout is Layout.SCATTERED else None
        bound = bind(case, layout=layout, fill=fill, allocate=allocate)
        return wrong(case, bound, execute(prepared, bound.request, execute_options()))


def _passed(case: Case, suffix: str = "") -> Result:
    return Result(
        group=GROUP,
        subject=case.signature.name,
        outcome=Outcome.PASSED,
        label=case.label + suffix,
        case=case.identifier,
        operation=case.type.name,
        form=case.signature.form,
        types=case.signature.types,
    )


def _keyed(case: Case) -> PrepareOptions:
    return replace(prepare_options(), cache_key=hashlib.sha256(case.identifier.encode()).digest())


def _declined(device: Device, case: Case, reason: str) -> str:
    """Checks that an operation reported as unsupported cannot be prepared either."""
    if not reason:
        return "it was refused without a reason"
    try:
        device.prepare_model(case.model, prepare_options())
    except DeadObject:
        raise
    except Error:
        return ""
    return f"it is reported as unsupported ({reason}) but was prepared"
