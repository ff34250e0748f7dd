import pytest

from neurald.hal.errors import BadData
from neurald.service.benchmark.delegation import delegation, delegation_sentence, require_full_delegation


def step(device: str, operations: int, instead: int = 0) -> dict[str, object]:
    return {"device": device, "operations": operations, "executions_on_cpu_instead": instead}


@pytest.mark.parametrize(
    ("steps", "sentence"),
    [
        ([step("cpu", 9)], "no delegation: 9 operations on cpu, in 1 step"),
        ([], "no delegation: no operations, in 0 steps"),
        ([step("gpu", 9)], "full delegation: 9 operations on gpu, in 1 step"),
        (
            [step("gpu", 5), step("cpu", 1), step("gpu", 2)],
            "partial delegation: 7 operations on gpu, 1 operation on cpu, in 3 steps",
        ),
        ([step("gpu", 5, instead=3)], "no delegation: 5 operations on cpu, in 1 step"),
    ],
)
def test_what_runs_where(steps: list[dict[str, object]], sentence: str) -> None:
    assert delegation_sentence(delegation(steps)) == sentence


def test_full_delegation_is_required() -> None:
    require_full_delegation(delegation([step("gpu", 9)]))
    with pytest.raises(BadData, match="full delegation is required; found partial delegation"):
        require_full_delegation(delegation([step("gpu", 9), step("cpu", 1)]))
