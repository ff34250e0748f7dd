"""Preparations in the background are tried again after errors that may pass, and no others."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import neurald as nd
from neurald.hal.errors import (
    BadData,
    DeadObject,
    OpFailed,
    OutOfMemory,
    ResourceExhaustedPersistent,
    ResourceExhaustedTransient,
)
from neurald.hal.sync.cancellation import Cancellation
from neurald.runtime.execution.recovery import retry
from neurald.runtime.execution.recovery.retry import tried_again

pytestmark = pytest.mark.quick


class Failing:
    """A preparation that fails some times."""

    def __init__(self, *errors: nd.Error) -> None:
        self.errors, self.count = list(errors), 0

    def __call__(self) -> str:
        self.count += 1
        if self.errors:
            raise self.errors.pop(0)
        return "prepared"


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "_PAUSES_S", (0.001, 0.002, 0.003))


@pytest.mark.parametrize(
    ("kind", "most"),
    [
        (OutOfMemory, 3),
        (ResourceExhaustedTransient, 3),
        (DeadObject, 1),
        (OpFailed, 1),
        (BadData, 0),
        (ResourceExhaustedPersistent, 0),
    ],
)
def test_each_kind_of_error_is_tried_again_so_often(kind: type[nd.Error], most: int) -> None:
    passing = Failing(*(kind(str(number)) for number in range(most)))
    assert tried_again(passing, Cancellation()) == "prepared"
    assert passing.count == most + 1
    lasting = Failing(*(kind(str(number)) for number in range(9)))
    with pytest.raises(kind, match=f"^{most}$"):
        tried_again(lasting, Cancellation())
    assert lasting.count == most + 1


def test_kinds_of_errors_are_counted_apart() -> None:
    mixed = Failing(*map(OutOfMemory, "ab"), OpFailed("c"), OutOfMemory("d"))
    assert tried_again(mixed, Cancellation()) == "prepared"
    assert mixed.count == 5


def test_cancelling_ends_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "_PAUSES_S", (3600.0,))
    cancellation, failing = Cancellation(), Failing(OutOfMemory("there is none"))
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(tried_again, failing, cancellation)
        while not failing.count:
            time.sleep(0.001)
        threading.Timer(0.05, cancellation.cancel).start()
        with pytest.raises(OutOfMemory, match="there is none"):
            future.result(60)
    assert failing.count == 1
