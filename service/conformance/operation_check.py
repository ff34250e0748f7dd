"""Checks the operations of a device with generated cases.

A case runs three times: with its inputs, with other inputs, and with its own inputs again, from
memories with different layouts and random contents around the arguments. This detects devices that
write outside of outputs, leave parts of them unwritten, read beyond inputs, or keep state between
executions. Several prepared models exist at a time, which detects devices that confuse them. Some
of the cases that pass also run between guard pages.

The tensors of most cases are inputs of the model. Many devices compile weights, and decline inputs
in their place. A case that is declined is therefore tried again with constant weights.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from neurald.hal.device import Artifact, Device, PreparedModel, PrepareOptions
from neurald.hal.errors import DeadObject, Error
from neurald.hal.extension_support import refused_operations
from neurald.hal.memory.pool import Memory
from neurald.hal.model.operation_type import OperationType
from neurald.hal.records import replace
from neurald.hal.validation.model_rules import operation_levels
from neurald.hal.wording import described_with_place
from neurald.service.conformance.cases.case import CONSTANT_WEIGHTS, Case, CaseSignature, generate
from neurald.service.conformance.cases.runner import (
    EXECUTION_MODES,
    Execute,
    Layout,
    bind,
    execute_options,
    find_error,
    prepare_options,
    run_sync,
)
from neurald.service.conformance.cases.selection import (
    ALL_CASES,
    CaseSelection,
    default_selection,
    rows_before,
)
from neurald.service.conformance.cases.variation import base_case, neighbours, reseeded, structural_cases
from neurald.service.conformance.guard.run import GuardRunner
from neurald.service.conformance.result import CheckResult, Outcome

GROUP = "operations"
#: The group of the results of cases that run between guard pages.
GUARD_PAGES = "guard pages"
#: Returns a description of what is wrong, or "".
FindError = Callable[[], str]
#: Is called with the name of what begins, and with the identifier of the case if it is one.
ReportStart = Callable[[str, str], None]
#: One of this many cases also runs in a burst and fenced.
_EXECUTION_MODES_STRIDE = 8
#: One of this many passed cases of a signature also runs between guard pages. Cases with constants
#: are counted separately.
_GUARD_PAGE_STRIDE = 8
#: Number of cases of a family that are also prepared from the cache.
_MIN_CACHED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class _PreparedCase:
    """A case that passed, with its prepared model and artifact."""

    case: Case
    model: PreparedModel
    artifact: Artifact | None


class OperationCheck:
    """Checks the operations of one device.

    Attributes:
        supported: the cases that passed, for other checks.

    Args:
        device: the device to check.
        guard_runner: runs cases of the device between guard pages.
        only: the label of the only case to run; "" runs all.
        is_thorough: True runs all enumerated cases instead of those of `default_selection`, and all
            passed cases between guard pages as well.
        report_start: is called before each case.
    """

    def __init__(
        self,
        device: Device,
        guard_runner: GuardRunner,
        only: str = "",
        *,
        is_thorough: bool = False,
        report_start: ReportStart = lambda name, case: None,
    ) -> None:
        self.supported: list[Case] = []
        self._report_start = report_start
        #: The rows that the device has declined, by operation and form.
        self._declined: defaultdict[tuple[OperationType, int], set[int]] = defaultdict(set)
        self._device = device
        self._guard_runner = guard_runner
        #: Number of passed cases of the current signature without and with constants.
        self._passed = {False: 0, True: 0}
        self._only = only
        self._is_thorough = is_thorough or bool(only)
        self._count = 0
        self._is_remote = device.is_remote

    def check(self, signature: CaseSignature, seeds: range) -> Iterator[CheckResult]:
        """Runs the cases of a signature and yields their results.

        Args:
            signature: the signature.
            seeds: the seeds of random cases, which run in addition to the enumerated ones.
        """
        is_declined = True
        for result in self._check(signature, seeds):
            is_declined = is_declined and result.outcome is Outcome.DECLINED
            yield result
        if is_declined:
            self._declined[signature.definition.type, signature.form].add(signature.row)

    def _check(self, signature: CaseSignature, seeds: range) -> Iterator[CheckResult]:
        """See `check`."""
        selection = ALL_CASES if self._is_thorough else self._selection(signature)
        self._passed = {False: 0, True: 0}
        for case in structural_cases(signature, selection):
            if self._is_wanted(case.label):
                yield from self._results(case)
                if self._only:
                    return
        if selection.has_family:
            yield from self._family(signature, selection)
        for seed in seeds:
            if self._is_wanted(f"seed {seed}") and (drawn := generate(signature, seed)):
                for result in self._results(drawn):
                    yield replace(result, seed=seed)

    def _selection(self, signature: CaseSignature) -> CaseSelection:
        """Returns the cases that run by default: all for the first accepted row of a kind."""
        declined = self._declined[signature.definition.type, signature.form]
        before = rows_before(signature)
        if before and declined.issuperset(before) and not self._accepts(base_case(signature)):
            return default_selection(signature)
        return default_selection(signature, declined)

    def _accepts(self, case: Case | None) -> bool:
        """Returns True if the device accepts a case, with constant weights at least."""
        for each in (case, case and case.with_constant_weights()):
            if each is None or self._unasked_reason(each):
                continue
            try:
                if all(answer.ok for answer in self._device.supported_operations(each.model)):
                    return True
            except Exception:
                return True  # The cases will tell what is wrong.
        return False

    def _results(self, case: Case) -> Iterator[CheckResult]:
        """Runs a case, and runs it between guard pages if it is selected for that."""
        for each, result, _ in self._tries(case):
            yield result
            yield from self._between_guard_pages(each, result)

    def _tries(self, case: Case) -> list[tuple[Case, CheckResult, _PreparedCase | None]]:
        """Runs a case, and with constant weights if only that is accepted.

        Returns:
            Each case that ran, its result, and the prepared case if it passed.
        """
        result, prepared = self._run_case(case)
        tries = [(case, result, prepared)]
        if result.outcome is Outcome.DECLINED and (constant := case.with_constant_weights()) is not None:
            result, prepared = self._run_case(constant)
            if result.outcome is not Outcome.DECLINED:
                tries.append((constant, result, prepared))
        return tries

    def _between_guard_pages(self, case: Case, result: CheckResult) -> Iterator[CheckResult]:
        """Runs a passed case between guard pages, if it is selected for that."""
        if result.outcome is not Outcome.PASSED:
            return
        has_constants = bool(case.model.pools)
        self._passed[has_constants] += 1
        if not self._is_thorough and self._passed[has_constants] % _GUARD_PAGE_STRIDE != 1:
            return
        detail = self._guard_runner.find_error(case)
        if detail is not None:
            outcome = Outcome.FAILED if detail else Outcome.PASSED
            label = f"{case.label} (guard pages)"
            yield replace(result, group=GUARD_PAGES, label=label, outcome=outcome, detail=detail)

    def _is_wanted(self, label: str) -> bool:
        return not self._only or label == self._only.removesuffix(CONSTANT_WEIGHTS)

    def _family(self, signature: CaseSignature, selection: CaseSelection) -> Iterator[CheckResult]:
        """Runs the base case and its neighbours, which the device must distinguish."""
        if self._only.startswith("seed "):
            return
        base = base_case(signature)
        if base is None:
            return
        *declined, (first, result, prepared) = self._tries(base)
        # Neighbours only run while the base model is prepared.
        chosen = (
            each
            for each in (neighbours(first, selection) if prepared is not None else ())
            if not self._only or self._only.startswith(each.label)
        )
        listed = list(chosen) if self._only else chosen
        if self._only and not listed and not self._only.startswith(base.label):
            return
        yield from (each for _, each, _ in declined)
        yield result
        yield from self._between_guard_pages(first, result)
        if prepared is None:
            return
        family = [prepared]
        for neighbour in listed:
            result, other = self._run_case(neighbour)
            if result.outcome is Outcome.PASSED:
                result = self._run_again(
                    prepared, result, f"after {neighbour.label!r} had been prepared and run"
                )
            yield result
            yield from self._between_guard_pages(neighbour, result)
            if other is not None:
                family.append(other)
        for each in family[1:]:
            yield self._run_again(each, _passed(each.case, " (again)"), "after its neighbours had been run")
        yield from self._from_cache(family)

    def _run_again(self, prepared: _PreparedCase, result: CheckResult, when: str) -> CheckResult:
        """Runs a prepared case again. Returns the result, or a failure if the outputs are wrong."""
        detail = self._caught(
            lambda: self._execute(prepared.model, prepared.case, run_sync, Layout.PACKED, 6)
        )
        if not detail:
            return result
        label = prepared.case.label
        return replace(result, outcome=Outcome.FAILED, detail=f"{label!r} failed {when}: {detail}")

    def _from_cache(self, family: list[_PreparedCase]) -> Iterator[CheckResult]:
        """Restores cases of the family from artifacts, in reverse, while the other models exist."""
        step = max(1, len(family) // _MIN_CACHED)
        for member in reversed(family[::step] if not self._only else family):
            if member.artifact is None:
                continue

            def run_restored(member: _PreparedCase = member, artifact: Artifact = member.artifact) -> str:
                prepared = self._device.prepare_model_from_cache(artifact, _keyed(member.case))
                return self._execute(prepared, member.case, run_sync, Layout.PACKED, 8)

            detail = self._caught(run_restored)
            result = _passed(member.case, " (from the cache)")
            yield replace(result, outcome=Outcome.FAILED, detail=detail) if detail else result

    def _run_case(self, case: Case) -> tuple[CheckResult, _PreparedCase | None]:
        """Prepares and runs a case; returns the result, and the prepared case if it passed."""
        self._count += 1
        self._report_start(case.name, case.identifier)
        prepared: list[_PreparedCase] = []
        declined: list[str] = []
        detail = self._caught(lambda: self._find_error(case, prepared, declined))
        result = _passed(case)
        if detail:
            return replace(result, outcome=Outcome.FAILED, detail=detail), None
        if declined:
            return replace(result, outcome=Outcome.DECLINED, detail=declined[0]), None
        self.supported.append(case)
        return result, prepared[0]

    @staticmethod
    def _caught(check: FindError) -> str:
        """Returns what a check finds, or describes its exception.

        A device in this process may raise any exception.
        """
        try:
            return check()
        except Error as error:
            return f"{error.code.name}: {error}"
        except Exception as error:
            return described_with_place(error)

    def _find_error(self, case: Case, passed: list[_PreparedCase], declined: list[str]) -> str:
        """Prepares and runs a case, and returns a description of what is wrong, or "".

        Adds the prepared case to `passed`, or the reason of a refusal to `declined`.
        """
        device = self._device
        unasked = self._unasked_reason(case)
        if unasked:
            declined.append(unasked)
            return ""
        answers = tuple(device.supported_operations(case.model))
        if len(answers) != 1:
            return f"{len(answers)} verdicts for a model with one operation"
        if not answers[0].ok:
            declined.append(answers[0].reason)
            return _refusal_error(device, case, answers[0].reason)
        prepared = device.prepare_model(case.model, _keyed(case))
        error = self._execution_error(prepared, case)
        if not error:
            artifact = prepared.artifact() if device.cache_files_needed else None
            passed.append(_PreparedCase(case=case, model=prepared, artifact=artifact))
        return error

    def _unasked_reason(self, case: Case) -> str:
        """Returns the reason why the device is not asked about a case, or ""."""
        (level,) = operation_levels(case.model)
        known = self._device.feature_level
        if level > known:
            return f"{level.name} is newer than the device's feature level, {known.name}"
        return refused_operations(case.model, self._device).get(0, "")

    def _execution_error(self, prepared: PreparedModel, case: Case) -> str:
        """Executes a case several times, and returns a description of what is wrong, or ""."""
        other = reseeded(case, 1) or case
        for number, (each, layout) in enumerate(
            ((case, Layout.PACKED), (other, Layout.SCATTERED), (case, Layout.SINGLE))
        ):
            # The patterns of seeds 2n and 2n + 1 differ in every bit.
            error = self._execute(prepared, each, run_sync, layout, number + 2 * (number // 2))
            if error:
                before = (
                    ""
                    if number == 0 or each is not case
                    else "the same inputs gave the right outputs before; "
                )
                return f"arguments {layout.value}: {before}{error}"
        for mode, execute in EXECUTION_MODES.items() if self._count % _EXECUTION_MODES_STRIDE == 0 else ():
            error = self._execute(prepared, case, execute, Layout.PACKED, 10)
            if error:
                return f"{mode}: {error}"
        return ""

    def _execute(
        self, prepared: PreparedModel, case: Case, execute: Execute, layout: Layout, fill: int
    ) -> str:
        """Executes a case once, and returns a description of what is wrong, or ""."""
        # Remote devices access shared memory directly, and copy other memory.
        allocate = Memory.allocate if self._is_remote and layout is Layout.SCATTERED else None
        bound = bind(case, layout=layout, fill=fill, allocate=allocate)
        return find_error(case, bound, execute(prepared, bound.request, execute_options()))


def _passed(case: Case, suffix: str = "") -> CheckResult:
    return CheckResult(
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
    """Returns options with a cache key that identifies the case."""
    return replace(prepare_options(), cache_key=hashlib.sha256(case.identifier.encode()).digest())


def _refusal_error(device: Device, case: Case, reason: str) -> str:
    """Returns what is wrong with the refusal of a case, or "".

    A refusal must have a reason, and the model must not be prepared either.
    """
    if not reason:
        return "the operation is refused without a reason"
    try:
        device.prepare_model(case.model, prepare_options())
    except DeadObject:
        raise
    except Error:
        return ""
    return f"the operation is reported as unsupported ({reason}), but was prepared"
