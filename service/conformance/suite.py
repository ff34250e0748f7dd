"""The conformance suite.

Supported operations, the HAL contract, invalid models, and Android's records.
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
from neurald.service.conformance.cases.case import Case, signatures
from neurald.service.conformance.cases.mutation import mutations
from neurald.service.conformance.cases.runner import has_bytes, prepare_options
from neurald.service.conformance.guard.run import guarded_runs
from neurald.service.conformance.operation_check import GUARD_PAGES, OperationCheck
from neurald.service.conformance.result import Outcome, Result
from neurald.service.conformance.rules.contract import RULES
from neurald.service.conformance.rules.rule import Broken, Declined, Subject

#: Limit on the operations whose models are made invalid; each gives about fifty models.
_MUTATED = 12
#: Number of models that are prepared in addition to the one that rules are checked with.
_OTHERS = 7

Told = Callable[[float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Selection of the checks.

    Attributes:
        count: random cases for each form and row of types of an operation, in addition to those
            that always run.
        seed: the seed of the first one.
        operations: only these are checked; none selects all.
        vectors: a folder with Android's conformance records.
        case: the identifier of the only case to run, "" for all.
        is_thorough: whether every type of an operation runs all cases, all of them between guard
            pages.
        driver: the name of a driver, or module:factory, that opens the device in another process,
            where cases run between guard pages. Without it, or for remote devices, no case does so.
    """

    count: int = 1
    seed: int = 0
    operations: tuple[OperationType, ...] = ()
    vectors: Path | None = None
    case: str = ""
    is_thorough: bool = False
    driver: str = ""


def run(device: Device, plan: Plan, told: Told = lambda share: None) -> Generator[Result, None, None]:
    """Checks a device; yields a result for each check.

    Ends early if the device is permanently lost.

    Args:
        device: any device.
        plan: the selection of checks.
        told: called with the completed share of the work.

    Raises:
        BadData: the folder has no records.
    """
    if plan.vectors is not None:
        from neurald.service.conformance.records import check_records, require_records

        require_records(plan.vectors)
    with closing(guarded_runs(device, plan.driver)) as guarded:
        _, _, label = plan.case.partition(":")[2].partition(":")[2].partition(":")
        check = OperationCheck(device, guarded, label, is_thorough=plan.is_thorough)
        failures = 0
        for result in _operations(check, plan, told):
            yield result
            failures = failures + 1 if result.detail.startswith(ResultCode.DEAD_OBJECT.name) else 0
            if failures >= 3:
                return
    if plan.case:
        return
    if guarded.refusal:
        yield Result(group=GUARD_PAGES, subject="all cases", outcome=Outcome.DECLINED, detail=guarded.refusal)
    is_remote = device.is_remote
    usable = [case for case in check.supported if has_bytes(case) and case.inputs]
    if usable:
        subject = Subject(
            device=device,
            case=max(usable, key=_size),
            others=_others(usable),
            is_remote=is_remote,
        )
        yield from _contract(subject)
    if is_remote:
        yield from _invalid_models(device, usable)
    if plan.vectors is not None:
        yield from check_records(device, plan.vectors, plan.operations, told)


def _others(cases: Sequence[Case]) -> tuple[Case, ...]:
    """Returns some cases, of different operations if possible, completed by neighbours."""
    by_type = list({case.type: case for case in cases}.values())
    step = max(1, len(by_type) // _OTHERS)
    found = by_type[::step][:_OTHERS]
    return (*found, *cases[-_OTHERS + len(found) :]) if len(found) < _OTHERS else tuple(found)


def _size(case: Case) -> int:
    return min(sum(value.size for value in case.expected), 1000)


def _operations(check: OperationCheck, plan: Plan, told: Told) -> Iterator[Result]:
    listed = [
        each
        for each in signatures(plan.operations)
        if plan.case.startswith(f"{each.identifier}:") or not plan.case
    ]
    for position, signature in enumerate(listed):
        told(position / len(listed))
        yield from check.check(signature, range(plan.seed, plan.seed + plan.count))


def _contract(subject: Subject) -> Iterator[Result]:
    for name, rule in RULES.items():
        try:
            rule(subject)
        except Declined as reason:
            outcome, detail = Outcome.DECLINED, str(reason)
        except Broken as reason:
            outcome, detail = Outcome.FAILED, str(reason)
        except Error as error:
            outcome, detail = Outcome.FAILED, f"{error.code.name}: {error}"
        except (Exception, threading.BrokenBarrierError) as error:
            outcome, detail = Outcome.FAILED, f"{type(error).__name__}: {error}"
        else:
            outcome, detail = Outcome.PASSED, ""
        yield Result(group="contract", subject=name, outcome=outcome, detail=detail)


def _invalid_models(device: Device, cases: Sequence[Case]) -> Iterator[Result]:
    """Yields checks of invalid models, of as many different operations as possible."""
    chosen = list({case.type: case for case in cases}.values())
    step = max(1, len(chosen) // _MUTATED)
    for case in chosen[::step][:_MUTATED]:
        for what, model in mutations(case.model):
            calls: dict[str, Callable[[], object]] = {
                "supported_operations": partial(device.supported_operations, model),
                "prepare_model": partial(device.prepare_model, model, prepare_options()),
            }
            for name, call in calls.items():
                detail = _acceptance(call)
                yield Result(
                    group="invalid models",
                    subject=f"{case.type.name}, {what}, {name}",
                    outcome=Outcome.FAILED if detail else Outcome.PASSED,
                    detail=detail,
                )


def _acceptance(call: Callable[[], object]) -> str:
    """Describes how a call with an invalid model ended wrongly; "" if it was refused properly."""
    try:
        call()
    except Error as error:
        is_right = error.code is ResultCode.BAD_DATA
        return "" if is_right else f"{error.code.name}: {error}; expected BAD_DATA"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "it was accepted"
