"""A result that a device returns again for a request is checked once, any other each time."""

from typing import Any

import pytest
from support.models.small import add_model

import neurald as nd
from neurald.hal.device import ExecutionResult
from neurald.hal.errors import OpFailed
from neurald.hal.model.request import Request
from neurald.runtime.execution.recovery import checked_results
from neurald.runtime.execution.recovery.checked_results import CheckedResults

pytestmark = pytest.mark.quick


def _request() -> Request:
    return Request(inputs=(), outputs=(), pools=())


def test_only_new_results_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Request, ExecutionResult]] = []

    def note(step: Any, request: Request, result: ExecutionResult) -> ExecutionResult:
        seen.append((request, result))
        return result

    monkeypatch.setattr(checked_results, "checked_step_result", note)
    step: Any = None
    results = CheckedResults(step)
    # Many more requests than are remembered.
    requests = [_request() for _ in range(100)]
    first, second = (ExecutionResult(output_shapes=()) for _ in range(2))
    for request in requests:
        for result in (first, first, second, second, first):
            results.check(request, result)
    assert len(seen) == 3 * len(requests)
    assert [result is first for _, result in seen[:3]] == [True, False, True]


def test_a_wrong_result_is_refused_each_time() -> None:
    compilation = nd.CompilationBuilder(add_model()).finish()
    results = CheckedResults(compilation.plan.steps[0])
    wrong = ExecutionResult(output_shapes=())
    request = _request()
    for _ in range(2):
        with pytest.raises(OpFailed, match="it has 0 output shapes; the model has 1 output"):
            results.check(request, wrong)
