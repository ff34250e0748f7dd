"""Verdicts of drivers: their number, their types, and the length of their reasons."""

from itertools import repeat
from typing import Any

import numpy as np
import pytest
from support.models.addition import AddingDevice, addition

import neurald as nd
from neurald.hal.device import Verdict
from neurald.hal.errors import Error, OpFailed
from neurald.hal.validation.verdict_rules import checked_verdicts
from neurald.hal.wording import MAX_DESCRIBED

YES = Verdict(ok=True)

WRONG = [
    (None, "returned None; a Verdict"),
    (True, "returned True; a Verdict"),
    ([True], "returned True for an operation; a Verdict"),
    ({0: True}, "returned 0 for an operation"),
    ([(True, "")], "for an operation"),
    ("y", "returned 'y' for an operation"),
    ([], "returned 0 verdicts for 1 operations"),
    (repeat(YES), "returned more than 1 verdicts for 1 operations"),
    ([Verdict(ok="no")], "ok='no'"),  # type: ignore[arg-type]
    ([Verdict(ok=1)], "ok=1"),  # type: ignore[arg-type]
    ([Verdict(ok=np.array([True, False]))], "ok=an array of bool"),  # type: ignore[arg-type]
    ([Verdict(ok=False, reason=None)], "reason=None"),  # type: ignore[arg-type]
    ([Verdict(ok=False, reason=b"x")], "reason=b'x'"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("answer", "words"), WRONG)
def test_wrong_verdicts_are_faults_of_the_driver(answer: Any, words: str) -> None:
    with pytest.raises(OpFailed) as caught:
        checked_verdicts(answer, 1, "odd")
    assert str(caught.value).startswith("odd: the driver has a fault: supported_operations() returned ")
    assert words in str(caught.value)


@pytest.mark.parametrize("answer", [[YES], (YES,), iter([YES])])
def test_each_iterable_of_verdicts_is_taken(answer: Any) -> None:
    assert checked_verdicts(answer, 1, "odd") == (YES,)


def test_long_reasons_are_shortened() -> None:
    (found,) = checked_verdicts([Verdict(ok=False, reason="x" * 10**6)], 1, "odd")
    assert found.reason == "x" * MAX_DESCRIBED + " …"


@pytest.mark.parametrize("answer", [each for each, _ in WRONG])
def test_a_device_with_wrong_verdicts_supports_nothing(answer: Any) -> None:
    class OddDevice(AddingDevice):
        name = "odd"

        def supported_operations(self, model: Any) -> Any:
            return answer

    model = addition(np.ones(2, np.float32))
    (verdict,) = nd.supported_operations(model, [OddDevice()])["odd"]
    assert verdict.ok is False
    assert "supported_operations() returned" in verdict.reason
    with pytest.raises(Error, match="supported_operations"):
        nd.compile(model, OddDevice())
