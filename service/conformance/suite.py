"""The suite: every operation that a device supports, what the HAL demands, invalid models, and Android's records if there are any."""

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

#: Operations of which models are made invalid, at most; each gives some fifty.
_MUTATED = 12
#: Models that are prepared beside that which rules are checked with.
_OTHERS = 7

Told = Callable[[float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be checked.

    Attributes:
        count: random cases for each form and row of types of an operation, beside those that always run.
        seed: of the first one.
        operations: only these; none for all.
        vectors: a folder with Android's conformance records.
        case: the identifier of the only case that is to run, "" for all.
        is_thorough: every type of an operation has all of its cases, and all run between guard pages.
        driver: opens the device in another process, where cases run between guard pages: the name of
            a driver, or module:factory. No case runs so without it, or on a device behind a socket.
    """

    count: int = 1
    seed: int = 0
    operations: tuple[OperationType, ...] = ()
    vectors: Path | None = None
    case: str = ""
    is_thorough: bool = False
    driver: str = ""


def run(device: Device, plan: Plan, told: Told = lambda share: None) -> Generator[Result, None, None]:
    """Checks a device; a result for each check. Ends early where the device is gone for good.

    Args:
        device: any one.
        plan: what is checked.
        told: called with the share of the work that is done.

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
    """Some cases, of different operations as far as there are any, and neighbours of one another."""
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
    """Models with something wrong, of as many different operations as possible."""
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
    """What is wrong with how a call with an invalid model ends; "" if it is refused as it should be."""
    try:
        call()
    except Error as error:
        is_right = error.code is ResultCode.BAD_DATA
        return "" if is_right else f"{error.code.name}: {error}; BAD_DATA is expected"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "it was accepted"
