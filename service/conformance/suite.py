"""The suite: every operation that a device supports, what the HAL demands, invalid models, and Android's records if there are any."""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from neurald.hal.device import Device
from neurald.hal.errors import DeadObject, Error, ResultCode
from neurald.hal.extension_support import refused_operations
from neurald.hal.operation_type import OperationType
from neurald.hal.validate import operation_levels
from neurald.service.conformance.case import Case, generate, signatures
from neurald.service.conformance.contract import RULES, Broken, Declined, Subject
from neurald.service.conformance.mutation import mutations
from neurald.service.conformance.result import Outcome, Result
from neurald.service.conformance.runner import (
    WAYS,
    bind,
    execute_options,
    has_bytes,
    outputs,
    prepare_options,
    synchronously,
    wrong,
)

#: Operations of which models are made invalid, at most; each gives some fifty.
_MUTATED = 12
#: Every so many cases also run in a burst and fenced.
_OTHER_WAYS = 8

Told = Callable[[float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be checked.

    Attributes:
        count: generated cases for each form and row of types of an operation.
        seed: of the first one.
        operations: only these; none for all.
        vectors: a folder with Android's conformance records.
    """

    count: int = 2
    seed: int = 0
    operations: tuple[OperationType, ...] = ()
    vectors: Path | None = None


def run(device: Device, plan: Plan, told: Told = lambda share: None) -> Iterator[Result]:
    """Checks a device; a result for each check. Ends early where the device is gone for good.

    Args:
        device: any one.
        plan: what is checked.
        told: called with the share of the work that is done.
    """
    supported: list[Case] = []
    failures = 0
    for result in _operations(device, plan, supported, told):
        yield result
        failures = failures + 1 if result.detail.startswith(ResultCode.DEAD_OBJECT.name) else 0
        if failures >= 3:
            return
    is_remote = getattr(device, "address", None) is not None
    usable = [case for case in supported if has_bytes(case) and case.inputs]
    if usable:
        yield from _contract(Subject(device=device, case=max(usable, key=_size), is_remote=is_remote))
    if is_remote:
        yield from _invalid_models(device, usable)
    if plan.vectors is not None:
        from neurald.service.conformance.records import check_records

        yield from check_records(device, plan.vectors, plan.operations, told)


def _size(case: Case) -> int:
    return min(sum(value.size for value in case.expected), 1000)


def _operations(device: Device, plan: Plan, supported: list[Case], told: Told) -> Iterator[Result]:
    listed = list(signatures(plan.operations))
    for position, signature in enumerate(listed):
        told(position / len(listed))
        for seed in range(plan.seed, plan.seed + plan.count):
            case = generate(signature, seed)
            if case is None:
                continue
            result = _case(device, case, is_in_all_ways=not (position + seed) % _OTHER_WAYS)
            if result.outcome is Outcome.PASSED:
                supported.append(case)
            yield result


def _case(device: Device, case: Case, *, is_in_all_ways: bool) -> Result:
    try:
        outcome, detail = _run_case(device, case, is_in_all_ways=is_in_all_ways)
    except Error as error:
        outcome, detail = Outcome.FAILED, f"{error.code.name}: {error}"
    except Exception as error:  # a device of this process may raise anything
        outcome, detail = Outcome.FAILED, f"{type(error).__name__}: {error}"
    name = case.name.rpartition(",")[0]
    return Result(group="operations", subject=name, outcome=outcome, detail=detail, seed=case.seed)


def _run_case(device: Device, case: Case, *, is_in_all_ways: bool) -> tuple[Outcome, str]:
    (level,) = operation_levels(case.model)
    if level > device.feature_level:
        return Outcome.DECLINED, f"{level.name} is newer than its feature level, {device.feature_level.name}"
    refused = refused_operations(case.model, device)
    if refused:
        return Outcome.DECLINED, refused[0]
    answers = tuple(device.supported_operations(case.model))
    if len(answers) != 1:
        return Outcome.FAILED, f"{len(answers)} verdicts on one operation"
    if not answers[0].ok:
        return _declined(device, case, answers[0].reason)
    prepared = device.prepare_model(case.model, prepare_options())
    ways = WAYS if is_in_all_ways else {"sync": synchronously}
    for way, execute in ways.items():
        bound = bind(case)
        result = execute(prepared, bound.request, execute_options())
        text = wrong(case, outputs(case, bound, result))
        if text:
            return Outcome.FAILED, f"{way}: {text}"
    return Outcome.PASSED, ""


def _declined(device: Device, case: Case, reason: str) -> tuple[Outcome, str]:
    """What is said not to be supported must not be prepared either."""
    try:
        device.prepare_model(case.model, prepare_options())
    except DeadObject:
        raise
    except Error:
        return Outcome.DECLINED, reason
    return Outcome.FAILED, f"it is not supported ({reason}), and was prepared"


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
    chosen = list({case.operation: case for case in cases}.values())
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
                    subject=f"{case.operation.name}, {what}, {name}",
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
