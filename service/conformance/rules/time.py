"""Rules of the contract about time: deadlines and cancellation take effect between operations."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from neurald.hal.device import ExecuteOptions, PreparedModel, PrepareOptions
from neurald.hal.errors import BadData, Cancelled, Error, MissedDeadlinePersistent, MissedDeadlineTransient
from neurald.hal.memory.pool import HostMemory, aligned_zeros
from neurald.hal.model.types import Argument, Request, byte_size
from neurald.hal.sync.cancellation import Cancellation
from neurald.service.conformance.cases.chain import Chain, supported_chains
from neurald.service.conformance.cases.runner import bind, fenced, prepare_options
from neurald.service.conformance.rules.rule import (
    Broken,
    Declined,
    Subject,
    prepared_of,
    require,
    require_right,
)

#: Time limit for the return of a call whose deadline has passed.
_QUICK_S = 2.0
#: Time limit for ending an execution: this, or three of its operations, if those take longer.
_ENDS_WITHIN_S = 0.25
_OPERATIONS_LATE = 3.0
#: An execution is long if it takes this many times the limit for ending it.
_LONG = 4.0
_MAX_OPERATIONS = 384
_PROBED = 4
_LIMIT_S = 60.0
_CHAINS_TRIED = 12
#: Number of attempts at a rule that a busy machine may have affected.
_ATTEMPTS = 3


class _Unsettled(Exception):
    """Result that a busy machine may have caused; the rule is repeated with a new measurement.

    Attributes:
        verdict: raised if no attempt settles it.
    """

    def __init__(self, verdict: Broken | Declined) -> None:
        super().__init__(str(verdict))
        self.verdict = verdict


def past_deadlines(subject: Subject) -> None:
    """Requires that a call with a past deadline returns at once with the proper error."""
    prepared = prepared_of(subject)
    past = time.monotonic() - 1.0
    bound = bind(subject.case)

    def prepare() -> object:
        return subject.device.prepare_model(subject.case.model, PrepareOptions(deadline_s=past))

    def execute() -> object:
        return prepared.execute(bound.request, ExecuteOptions(deadline_s=past))

    def execute_fenced() -> object:
        return fenced(prepared, bound.request, ExecuteOptions(deadline_s=past))

    for what, call in (("prepare_model", prepare), ("execute", execute), ("execute_fenced", execute_fenced)):
        started = time.monotonic()
        try:
            call()
        except (MissedDeadlinePersistent, MissedDeadlineTransient):
            elapsed = time.monotonic() - started
            require(elapsed < _QUICK_S, f"{what}: told after {elapsed:.1f} s that it was too late")
        else:
            raise Broken(f"{what}: it ignored that its deadline had passed")
    require_right(subject, bind(subject.case), prepared, "after calls that were too late")


@dataclass(frozen=True, slots=True, kw_only=True)
class LongRun:
    """Execution that takes long.

    Attributes:
        takes_s: its approximate duration.
        may_go_on_s: the time limit for ending it.
    """

    name: str
    prepared: PreparedModel
    request: Request
    takes_s: float
    may_go_on_s: float


@lru_cache(maxsize=1)
def long_run(subject: Subject) -> LongRun:
    """Returns a long execution of operations that the device supports.

    Raises:
        Declined: none of them takes long enough.
    """
    for tried, chain in enumerate(supported_chains(subject.device)):
        if tried == _CHAINS_TRIED:
            break
        each_s = _seconds(subject, chain, _PROBED) / _PROBED
        may_go_on_s = max(_ENDS_WITHIN_S, _OPERATIONS_LATE * each_s)
        count = int(np.ceil(_LONG * may_go_on_s / max(each_s, 1e-6)))
        if count > _MAX_OPERATIONS:
            continue
        prepared = subject.device.prepare_model(chain.model(count), _patient())
        request = _request(chain)
        started = time.monotonic()
        prepared.execute(request, ExecuteOptions(deadline_s=started + _LIMIT_S))
        takes_s = time.monotonic() - started
        # On a busy machine its operations take longer than the few that were measured.
        may_go_on_s = max(may_go_on_s, _OPERATIONS_LATE * takes_s / count)
        # A compiler may have simplified many operations more than a few.
        if takes_s >= _LONG / 2 * may_go_on_s:
            return LongRun(
                name=f"{count} x {chain.name}",
                prepared=prepared,
                request=request,
                takes_s=takes_s,
                may_go_on_s=may_go_on_s,
            )
    raise Declined("nothing that it supports takes long enough")


def _patient() -> PrepareOptions:
    return replace(prepare_options(), deadline_s=time.monotonic() + _LIMIT_S)


def _seconds(subject: Subject, chain: Chain, count: int) -> float:
    """Returns the seconds that this many operations take."""
    prepared = subject.device.prepare_model(chain.model(count), _patient())
    request = _request(chain)
    best = _LIMIT_S
    for _ in range(2):
        started = time.monotonic()
        prepared.execute(request, ExecuteOptions(deadline_s=started + _LIMIT_S))
        best = min(best, time.monotonic() - started)
    return best


def _request(chain: Chain) -> Request:
    size = byte_size(chain.value.type, chain.value.dimensions or ())
    source = aligned_zeros(size)
    if chain.value.type.dtype.kind == "f":
        values = np.random.default_rng(1).uniform(0.5, 1.5, size // chain.value.type.dtype.itemsize)
        source[:] = np.frombuffer(values.astype(chain.value.type.dtype).tobytes(), np.uint8)
    return Request(
        inputs=(Argument(pool=0, length=size, dimensions=chain.value.dimensions),),
        outputs=(Argument(pool=1, length=size),),
        pools=(HostMemory(source), HostMemory(aligned_zeros(size))),
    )


def _settle(check: Callable[[], None]) -> None:
    """Repeats a check that a busy machine may have affected."""
    for _ in range(_ATTEMPTS):
        try:
            check()
        except _Unsettled as error:
            verdict = error.verdict
            long_run.cache_clear()
        else:
            return
    raise verdict


def deadline_of_a_run(subject: Subject) -> None:
    """Requires that an execution ends with the proper error when its deadline passes."""
    _settle(lambda: _deadline_of_a_run(subject))


def _deadline_of_a_run(subject: Subject) -> None:
    run = long_run(subject)
    given_s = run.takes_s / 8
    deadline_s = time.monotonic() + given_s
    _require_end(
        run,
        lambda: run.prepared.execute(run.request, ExecuteOptions(deadline_s=deadline_s)),
        (MissedDeadlineTransient, MissedDeadlinePersistent),
        lambda: deadline_s,
        f"its deadline after {given_s * 1000:.0f} ms",
    )
    require_right(subject, bind(subject.case), prepared_of(subject), "after a deadline that passed")


def cancellation(subject: Subject) -> None:
    """Requires that an execution ends properly when cancelled before or while it runs."""
    _settle(lambda: _cancellation(subject))


def _cancellation(subject: Subject) -> None:
    run = long_run(subject)
    cancelled_before = Cancellation()
    cancelled_before.cancel()
    started = time.monotonic()
    _require_end(
        run,
        lambda: run.prepared.execute(run.request, ExecuteOptions(cancellation=cancelled_before)),
        (Cancelled,),
        lambda: started,
        "being cancelled before it began",
    )
    asked = Cancellation()
    moment: list[float] = []

    def cancel() -> None:
        moment.append(time.monotonic())
        asked.cancel()

    timer = threading.Timer(run.takes_s / 8, cancel)
    timer.start()
    try:
        _require_end(
            run,
            lambda: run.prepared.execute(run.request, ExecuteOptions(cancellation=asked)),
            (Cancelled,),
            lambda: moment[0] if moment else time.monotonic(),
            f"being cancelled after {run.takes_s / 8 * 1000:.0f} ms",
        )
    finally:
        timer.cancel()
        timer.join()
    require_right(subject, bind(subject.case), prepared_of(subject), "after an execution was cancelled")


def _require_end(
    run: LongRun,
    execute: Callable[[], object],
    errors: tuple[type[Error], ...],
    moment: Callable[[], float],
    why: str,
) -> None:
    expected = " or ".join(error.__name__ for error in errors)
    try:
        execute()
    except errors:
        late_s = time.monotonic() - moment()
        if late_s > run.may_go_on_s:
            late = Broken(
                f"{run.name}, which takes {run.takes_s * 1000:.0f} ms, ended {late_s * 1000:.0f} ms after {why}; "
                f"{run.may_go_on_s * 1000:.0f} ms are allowed"
            )
            raise _Unsettled(late) from None
    except BadData:
        raise
    except Error as error:
        raise Broken(
            f"{run.name}: it ended with {type(error).__name__} ({error}); expected {expected}"
        ) from None
    else:
        if time.monotonic() - moment() <= run.may_go_on_s:
            # It finished before it could be ended: the machine was busier when the duration was
            # measured.
            raise _Unsettled(Declined(f"the time that {run.name} takes varies too much"))
        raise Broken(f"{run.name}, which takes {run.takes_s * 1000:.0f} ms, was not ended by {why}")
