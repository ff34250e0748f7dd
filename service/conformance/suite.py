"""Runs the checks of a device: operations, the HAL's contract, invalid models, Android's records.

Tests of drivers outside of this project use `Plan` and `run`, so these names must not change.
"""

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from neurald.hal.device import Device
from neurald.hal.errors import Error, ResultCode
from neurald.hal.model.operation_type import OperationType
from neurald.hal.wording import described_with_place
from neurald.service.conformance.cases.case import Case, signatures
from neurald.service.conformance.cases.mutation import mutations
from neurald.service.conformance.cases.runner import has_output_elements, prepare_options
from neurald.service.conformance.guard.run import guard_runner_for
from neurald.service.conformance.operation_check import GUARD_PAGES, OperationCheck, ReportStart
from neurald.service.conformance.result import CheckResult, Outcome
from neurald.service.conformance.rules.contract import RULES
from neurald.service.conformance.rules.rule import Declined, RuleViolation, Subject

#: Number of operations whose models are made invalid. Each gives about fifty models.
_MAX_MUTATED_OPERATIONS = 12
#: Number of models that are prepared in addition to the one that rules are checked with.
_OTHER_MODELS = 7
#: A device is lost after this many consecutive DEAD_OBJECT errors.
_MAX_DEAD_RESULTS = 3
#: Cases with more output elements are not preferred for checking rules.
_LARGE_CASE_ELEMENTS = 1000

#: Called with the completed fraction of the work, from 0 to 1.
ReportProgress = Callable[[float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Selects the checks of a run.

    Attributes:
        count: the number of random cases for each form and row of types of an operation, in
            addition to the cases that always run.
        seed: the seed of the first random case.
        operations: the operations to check; an empty tuple selects all.
        vectors: a folder with Android's conformance records to run as well.
        case: the identifier of the only case to run; "" runs all.
        is_thorough: True runs all cases for every type, and all of them between guard pages.
        driver: the name of a driver, or module:factory, that opens the device in another process to
            run cases between guard pages. Without it no case runs between guard pages.
    """

    count: int = 1
    seed: int = 0
    operations: tuple[OperationType, ...] = ()
    vectors: Path | None = None
    case: str = ""
    is_thorough: bool = False
    driver: str = ""


def run(
    device: Device,
    plan: Plan,
    report_progress: ReportProgress = lambda fraction: None,
    report_start: ReportStart = lambda name, case: None,
) -> Generator[CheckResult, None, None]:
    """Checks a device and yields a result for each check.

    It ends early if the device is permanently lost.

    Args:
        device: the device to check.
        plan: the selection of checks.
        report_progress: the function that is called with the completed fraction of the work, from
            0 to 1.
        report_start: the function that is called before each case and rule with its name, and with
            the identifier of the case.

    Raises:
        BadData: the folder of records contains none.
    """
    if plan.vectors is not None:
        from neurald.service.conformance.records import check_records, require_records

        require_records(plan.vectors)
    with closing(guard_runner_for(device, plan.driver)) as guard_runner:
        _, _, label = plan.case.partition(":")[2].partition(":")[2].partition(":")
        check = OperationCheck(
            device, guard_runner, label, is_thorough=plan.is_thorough, report_start=report_start
        )
        dead_count = 0
        for result in _operations(check, plan, report_progress):
            yield result
            is_dead = result.detail.startswith(ResultCode.DEAD_OBJECT.name)
            dead_count = dead_count + 1 if is_dead else 0
            if dead_count == _MAX_DEAD_RESULTS:
                return
    if plan.case:
        return
    if guard_runner.refusal:
        yield CheckResult(
            group=GUARD_PAGES, subject="all cases", outcome=Outcome.DECLINED, detail=guard_runner.refusal
        )
    is_remote = device.is_remote
    usable = [case for case in check.supported if has_output_elements(case) and case.inputs]
    if usable:
        subject = Subject(
            device=device,
            case=max(usable, key=_size),
            others=_others(usable),
            is_remote=is_remote,
        )
        yield from _contract(subject, report_start)
    if is_remote:
        yield from _invalid_models(device, usable)
    if plan.vectors is not None:
        yield from check_records(device, plan.vectors, plan.operations, report_progress)


def _others(cases: Sequence[Case]) -> tuple[Case, ...]:
    """Returns at most `_OTHER_MODELS` cases, of different operations if possible."""
    by_type = list({case.type: case for case in cases}.values())
    step = max(1, len(by_type) // _OTHER_MODELS)
    found = by_type[::step][:_OTHER_MODELS]
    return (*found, *cases[-_OTHER_MODELS + len(found) :]) if len(found) < _OTHER_MODELS else tuple(found)


def _size(case: Case) -> int:
    return min(sum(value.size for value in case.expected), _LARGE_CASE_ELEMENTS)


def _operations(check: OperationCheck, plan: Plan, report_progress: ReportProgress) -> Iterator[CheckResult]:
    listed = [
        each
        for each in signatures(plan.operations)
        if plan.case.startswith(f"{each.identifier}:") or not plan.case
    ]
    for position, signature in enumerate(listed):
        report_progress(position / len(listed))
        yield from check.check(signature, range(plan.seed, plan.seed + plan.count))


def _contract(subject: Subject, report_start: ReportStart) -> Iterator[CheckResult]:
    for name, rule in RULES.items():
        report_start(f"the rule {name!r}", "")
        try:
            rule(subject)
        except Declined as reason:
            outcome, detail = Outcome.DECLINED, str(reason)
        except RuleViolation as reason:
            outcome, detail = Outcome.FAILED, str(reason)
        except Error as error:
            outcome, detail = Outcome.FAILED, f"{error.code.name}: {error}"
        except (Exception, threading.BrokenBarrierError) as error:
            outcome, detail = Outcome.FAILED, described_with_place(error)
        else:
            outcome, detail = Outcome.PASSED, ""
        yield CheckResult(group="contract", subject=name, outcome=outcome, detail=detail)


def _invalid_models(device: Device, cases: Sequence[Case]) -> Iterator[CheckResult]:
    """Checks that invalid models are refused, for several operations."""
    chosen = list({case.type: case for case in cases}.values())
    step = max(1, len(chosen) // _MAX_MUTATED_OPERATIONS)
    for case in chosen[::step][:_MAX_MUTATED_OPERATIONS]:
        for what, model in mutations(case.model):
            calls: dict[str, Callable[[], object]] = {
                "supported_operations": partial(device.supported_operations, model),
                "prepare_model": partial(device.prepare_model, model, prepare_options()),
            }
            for name, call in calls.items():
                detail = _acceptance(call)
                yield CheckResult(
                    group="invalid models",
                    subject=f"{case.type.name}, {what}, {name}",
                    outcome=Outcome.FAILED if detail else Outcome.PASSED,
                    detail=detail,
                )


def _acceptance(call: Callable[[], object]) -> str:
    """Returns what is wrong with the outcome of a call with an invalid model, or ""."""
    try:
        call()
    except Error as error:
        is_right = error.code is ResultCode.BAD_DATA
        return "" if is_right else f"{error.code.name}: {error}; expected BAD_DATA"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "it was accepted; expected BAD_DATA"
