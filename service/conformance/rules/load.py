"""Rules about concurrent executions and preparations."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from neurald.hal.device import PreparedModel
from neurald.service.conformance.cases.case import Case
from neurald.service.conformance.cases.runner import (
    CALL_TIMEOUT_S,
    Layout,
    bind,
    execute_options,
    find_error,
    prepare_options,
)
from neurald.service.conformance.cases.variation import reseeded
from neurald.service.conformance.rules.rule import Subject, prepare_case, require

_THREADS = 8
_RUNS = 12
_PREPARATIONS = 4


def concurrent_executions(subject: Subject) -> None:
    """Requires that concurrent executions of one prepared model have the right outputs."""
    prepared = prepare_case(subject)
    cases = [reseeded(subject.case, seed) or subject.case for seed in range(_THREADS)]
    barrier = threading.Barrier(_THREADS)

    def work(number: int) -> None:
        barrier.wait(CALL_TIMEOUT_S)
        for run in range(_RUNS):
            _require_correct(cases[number], prepared, run, f"one of {_THREADS} concurrent executions")

    _run_all(work, _THREADS)


def concurrent_models(subject: Subject) -> None:
    """Requires that several prepared models run concurrently while others are prepared."""
    cases = (subject.case, *subject.others)[:_THREADS]
    prepared = [subject.device.prepare_model(case.model, prepare_options()) for case in cases]
    barrier = threading.Barrier(len(cases) + 1)

    def work(number: int) -> None:
        barrier.wait(CALL_TIMEOUT_S)
        if number < len(cases):
            for run in range(_RUNS):
                case = reseeded(cases[number], run) or cases[number]
                _require_correct(case, prepared[number], run, f"one of {len(cases)} concurrent models")
            return
        for _ in range(_PREPARATIONS):
            for case in cases:
                fresh = subject.device.prepare_model(case.model, prepare_options())
                _require_correct(case, fresh, 0, "prepared while others ran")

    _run_all(work, len(cases) + 1)


def _run_all(work: Callable[[int], None], count: int) -> None:
    """Calls `work` with the numbers below `count`, each in a thread of its own."""
    with ThreadPoolExecutor(count) as pool:
        for running in [pool.submit(work, number) for number in range(count)]:
            running.result()


def _require_correct(case: Case, prepared: PreparedModel, run: int, what: str) -> None:
    layouts = tuple(Layout)
    bound = bind(case, layout=layouts[run % len(layouts)], fill=run)
    error = find_error(case, bound, prepared.execute(bound.request, execute_options()))
    require(not error, f"{what}: {error}")
