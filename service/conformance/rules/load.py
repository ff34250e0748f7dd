"""Rules of the contract about concurrent models, executions and preparations."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from neurald.hal.device import PreparedModel
from neurald.service.conformance.cases.case import Case
from neurald.service.conformance.cases.runner import (
    LIMIT_S,
    Layout,
    bind,
    execute_options,
    prepare_options,
    wrong,
)
from neurald.service.conformance.cases.variation import reseeded
from neurald.service.conformance.rules.rule import Subject, prepared_of, require

_THREADS = 8
_RUNS = 12
_PREPARATIONS = 4


def at_the_same_time(subject: Subject) -> None:
    """Requires that executions of one prepared model may overlap, with different inputs."""
    prepared = prepared_of(subject)
    cases = [reseeded(subject.case, seed) or subject.case for seed in range(_THREADS)]
    barrier = threading.Barrier(_THREADS)

    def work(number: int) -> None:
        barrier.wait(LIMIT_S)
        for run in range(_RUNS):
            _require_right(cases[number], prepared, run, f"one of {_THREADS} executions at a time")

    _all(work, _THREADS)


def many_models(subject: Subject) -> None:
    """Requires that several prepared models run concurrently, while others are prepared."""
    cases = (subject.case, *subject.others)[:_THREADS]
    prepared = [subject.device.prepare_model(case.model, prepare_options()) for case in cases]
    barrier = threading.Barrier(len(cases) + 1)

    def work(number: int) -> None:
        barrier.wait(LIMIT_S)
        if number < len(cases):
            for run in range(_RUNS):
                case = reseeded(cases[number], run) or cases[number]
                _require_right(case, prepared[number], run, f"one of {len(cases)} models at a time")
            return
        for _ in range(_PREPARATIONS):
            for case in cases:
                fresh = subject.device.prepare_model(case.model, prepare_options())
                _require_right(case, fresh, 0, "prepared while others ran")

    _all(work, len(cases) + 1)


def _all(work: Callable[[int], None], count: int) -> None:
    with ThreadPoolExecutor(count) as pool:
        for running in [pool.submit(work, number) for number in range(count)]:
            running.result()


def _require_right(case: Case, prepared: PreparedModel, run: int, what: str) -> None:
    layouts = tuple(Layout)
    bound = bind(case, layout=layouts[run % len(layouts)], fill=run)
    text = wrong(case, bound, prepared.execute(bound.request, execute_options()))
    require(not text, f"{what}: {text}")
