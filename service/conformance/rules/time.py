"""Rules about deadlines and cancellation, which must take effect between two operations."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from neurald.hal.device import ExecuteOptions, PreparedModel, PrepareOptions
from neurald.hal.errors import BadData, Cancelled, Error, MissedDeadlinePersistent, MissedDeadlineTransient
from neurald.hal.memory.pool import HostMemory
from neurald.hal.memory.private_memory import aligned_zeros
from neurald.hal.model.request import Argument, Request
from neurald.hal.model.types import byte_size
from neurald.hal.process.threads.checked_thread import CheckedTimer
from neurald.hal.records import replace
from neurald.hal.sync.cancellation import Cancellation
from neurald.service.conformance.cases.chain import OperationChain, supported_chains
from neurald.service.conformance.cases.runner import bind, prepare_options, run_fenced
from neurald.service.conformance.rules.rule import (
    Declined,
    RuleViolation,
    Subject,
    prepare_case,
    require,
    require_correct,
)

#: Time limit of a call whose deadline passed before.
_MAX_REFUSAL_S = 2.0
#: An execution must end within this time or within the time of this many operations, whichever is
#: longer.
_MAX_LATE_S = 0.25
_MAX_LATE_OPERATIONS = 3.0
#: A long execution takes this many times the limit for ending it.
_MIN_LENGTH = 4.0
_MAX_OPERATIONS = 384
#: Number of operations whose time is measured to choose the length of a chain.
_MEASURED_OPERATIONS = 4
#: Time limit of a long execution.
_TIMEOUT_S = 60.0
_MAX_CHAINS = 12
#: Number of attempts at a rule that a busy machine may have affected.
_MAX_ATTEMPTS = 3


class _Inconclusive(Exception):
    """A result that a busy machine may have caused. The rule is checked again.

    Attributes:
        verdict: the exception to raise if no attempt is conclusive.
    """

    def __init__(self, verdict: RuleViolation | Declined) -> None:
        super().__init__(str(verdict))
        self.verdict = verdict


def past_deadlines(subject: Subject) -> None:
    """Requires that a call whose deadline has passed raises MissedDeadline at once."""
    prepared = prepare_case(subject)
    past = time.monotonic() - 1.0
    bound = bind(subject.case)

    def prepare() -> object:
        return subject.device.prepare_model(subject.case.model, PrepareOptions(deadline_s=past))

    def execute() -> object:
        return prepared.execute(bound.request, ExecuteOptions(deadline_s=past))

    def execute_fenced() -> object:
        return run_fenced(prepared, bound.request, ExecuteOptions(deadline_s=past))

    for what, call in (("prepare_model", prepare), ("execute", execute), ("execute_fenced", execute_fenced)):
        started = time.monotonic()
        try:
            call()
        except (MissedDeadlinePersistent, MissedDeadlineTransient):
            elapsed = time.monotonic() - started
            require(
                elapsed < _MAX_REFUSAL_S,
                f"{what}: the error came after {elapsed:.1f} s; expected it within {_MAX_REFUSAL_S:g} s",
            )
        else:
            raise RuleViolation(f"{what}: it ignored a deadline that had passed")
    require_correct(subject, bind(subject.case), prepared, "after calls whose deadlines had passed")


@dataclass(frozen=True, slots=True, kw_only=True)
class LongRun:
    """An execution that takes long.

    Attributes:
        name: the name for messages.
        prepared: the prepared model.
        request: the request.
        takes_s: the approximate duration.
        max_late_s: the time limit for ending the execution.
    """

    name: str
    prepared: PreparedModel
    request: Request
    takes_s: float
    max_late_s: float


@lru_cache(maxsize=1)
def long_run(subject: Subject) -> LongRun:
    """Returns a long execution of an operation that the device supports.

    Raises:
        Declined: no supported chain takes long enough.
    """
    for tried, chain in enumerate(supported_chains(subject.device)):
        if tried == _MAX_CHAINS:
            break
        each_s = _seconds(subject, chain, _MEASURED_OPERATIONS) / _MEASURED_OPERATIONS
        max_late_s = max(_MAX_LATE_S, _MAX_LATE_OPERATIONS * each_s)
        count = int(np.ceil(_MIN_LENGTH * max_late_s / max(each_s, 1e-6)))
        if count > _MAX_OPERATIONS:
            continue
        prepared = subject.device.prepare_model(chain.model(count), _long_options())
        request = _request(chain)
        started = time.monotonic()
        prepared.execute(request, ExecuteOptions(deadline_s=started + _TIMEOUT_S))
        takes_s = time.monotonic() - started
        # On a busy machine the operations take longer than those measured before.
        max_late_s = max(max_late_s, _MAX_LATE_OPERATIONS * takes_s / count)
        # A compiler may simplify a long chain more than a short one.
        if takes_s >= _MIN_LENGTH / 2 * max_late_s:
            return LongRun(
                name=f"{count} x {chain.name}",
                prepared=prepared,
                request=request,
                takes_s=takes_s,
                max_late_s=max_late_s,
            )
    raise Declined("no supported operation takes long enough")


def _long_options() -> PrepareOptions:
    return replace(prepare_options(), deadline_s=time.monotonic() + _TIMEOUT_S)


def _seconds(subject: Subject, chain: OperationChain, count: int) -> float:
    """Returns the duration of a chain of this many operations."""
    prepared = subject.device.prepare_model(chain.model(count), _long_options())
    request = _request(chain)
    best = _TIMEOUT_S
    for _ in range(2):
        started = time.monotonic()
        prepared.execute(request, ExecuteOptions(deadline_s=started + _TIMEOUT_S))
        best = min(best, time.monotonic() - started)
    return best


def _request(chain: OperationChain) -> Request:
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


def _repeat_if_inconclusive(check: Callable[[], None]) -> None:
    """Runs a check, and repeats it if a busy machine may have affected the result."""
    for _ in range(_MAX_ATTEMPTS):
        try:
            check()
        except _Inconclusive as error:
            verdict = error.verdict
            long_run.cache_clear()
        else:
            return
    try:
        raise verdict
    finally:
        # The error refers to this frame, so the frame must not refer to it.
        del verdict


def deadline_during_execution(subject: Subject) -> None:
    """Requires that an execution ends with MissedDeadline when its deadline passes."""
    _repeat_if_inconclusive(lambda: _deadline_during_execution(subject))


def _deadline_during_execution(subject: Subject) -> None:
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
    require_correct(
        subject, bind(subject.case), prepare_case(subject), "after an execution whose deadline passed"
    )


def cancellation(subject: Subject) -> None:
    """Requires that a cancelled execution ends with Cancelled, whether it runs already or not."""
    _repeat_if_inconclusive(lambda: _cancellation(subject))


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

    timer = CheckedTimer(run.takes_s / 8, cancel)
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
    require_correct(subject, bind(subject.case), prepare_case(subject), "after an execution was cancelled")


def _require_end(
    run: LongRun,
    execute: Callable[[], object],
    errors: tuple[type[Error], ...],
    moment: Callable[[], float],
    why: str,
) -> None:
    """Requires that an execution ends in time with one of these errors.

    Args:
        run: the execution.
        execute: starts it.
        errors: the expected errors.
        moment: returns the time at which it had to end.
        why: the reason to end, for messages.
    """
    expected = " or ".join(error.__name__ for error in errors)
    try:
        execute()
    except errors:
        late_s = time.monotonic() - moment()
        if late_s > run.max_late_s:
            late = RuleViolation(
                f"{run.name}, which takes {run.takes_s * 1000:.0f} ms, ended {late_s * 1000:.0f} ms after "
                f"{why}; "
                f"{run.max_late_s * 1000:.0f} ms are allowed"
            )
            raise _Inconclusive(late) from None
    except BadData:
        raise
    except Error as error:
        raise RuleViolation(
            f"{run.name}: it ended with {type(error).__name__} ({error}); expected {expected}"
        ) from None
    else:
        if time.monotonic() - moment() <= run.max_late_s:
            # The execution was faster than before, so it finished before it had to end.
            raise _Inconclusive(Declined(f"the duration of {run.name} varies too much"))
        raise RuleViolation(f"{run.name}, which takes {run.takes_s * 1000:.0f} ms, did not end after {why}")
