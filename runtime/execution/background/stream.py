"""Runs a sequence of calls, several at once, and yields their results in order.

Calls at once are what pipelines a plan of several steps: while one call runs its second step on one
device, the next runs its first step on another. Each device runs the calls that wait for it one
after another.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future
from functools import partial
from typing import Final, TypeVar

from neurald.hal.api_arguments import integer, shown
from neurald.hal.errors import BadData, WrongType
from neurald.runtime.execution.background.worker_pool import Lane
from neurald.runtime.plan.plan import ExecutionPlan

_Given = TypeVar("_Given")
_Result = TypeVar("_Result")

MAX_DEPTH: Final = 1024
_MIN_DEPTH: Final = 4
#: The number of calls for each device: while one runs there, others must be ready to take its
#: place, even if the devices before are late.
_CALLS_PER_DEVICE: Final = 2


def usual_depth(plan: ExecutionPlan) -> int:
    """Returns the depth that keeps the devices of a plan busy."""
    devices = {id(step.device) for step in plan.steps}
    return min(MAX_DEPTH, max(_MIN_DEPTH, _CALLS_PER_DEVICE * len(devices)))


def streamed(
    call: Callable[[_Given], _Result], inputs: Iterable[_Given], depth: int, *, is_ordered: bool
) -> Generator[_Result, None, None]:
    """Yields the results of calls, in the order of the inputs.

    An input is taken from the iterable only when fewer than `depth` calls have results that nobody
    has taken yet.

    Args:
        call: may be called by several threads at once.
        inputs: one for each call.
        depth: number of calls at once.
        is_ordered: whether calls must run one after another, because each one depends on the last.

    Raises:
        BadData: the depth is not in 1 to 1024.
        WrongType: the inputs are not iterable, or the depth is not an integer.
    """
    try:
        inputs = iter(inputs)
    except TypeError:
        raise WrongType(
            f"the inputs are {shown(inputs)}; an iterable of the inputs of calls is expected"
        ) from None
    if not 1 <= integer(depth, "the depth") <= MAX_DEPTH:
        raise BadData(f"the depth is {depth}; a number from 1 to {MAX_DEPTH} is expected")
    return _one_by_one(call, inputs) if is_ordered or depth == 1 else _several(call, inputs, depth)


def _one_by_one(
    call: Callable[[_Given], _Result], inputs: Iterable[_Given]
) -> Generator[_Result, None, None]:
    for given in inputs:
        yield call(given)


def _several(
    call: Callable[[_Given], _Result], inputs: Iterable[_Given], depth: int
) -> Generator[_Result, None, None]:
    lane = Lane()
    waiting: deque[Future[_Result]] = deque()
    try:
        for given in inputs:
            waiting.append(lane.submit(partial(call, given)))
            if len(waiting) == depth:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
