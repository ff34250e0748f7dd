"""find_best_device_for_each_operation: scores, ties and reasons, as on Android."""

import math

import pytest
from support.models import FLOAT, add_model

import neurald as nd
from neurald.hal.device import Capabilities, Performance, Verdict
from neurald.runtime.partition import Candidate, find_best_device_for_each_operation, score

FAST = nd.Preference.FAST_SINGLE_ANSWER


def candidate(
    name: str, time: float | None, *, power: float = 1.0, is_cpu: bool = False, ok: bool = True
) -> Candidate:
    performance = Performance(exec_time=time or 1.0, power_usage=power)
    return Candidate(
        name=name,
        verdicts=(Verdict(ok=ok, reason="" if ok else "no rule"),),
        capabilities=Capabilities(
            operand_performance={} if time is None else {FLOAT: performance},
            relaxed_float32_scalar=performance,
            relaxed_float32_tensor=Performance(exec_time=0.125, power_usage=0.25),
            if_performance=performance,
            while_performance=performance,
        ),
        is_cpu=is_cpu,
    )


@pytest.mark.parametrize(
    ("candidates", "winner"),
    [
        ([candidate("a", 0.9), candidate("b", 0.8)], 1),
        ([candidate("a", 1.0), candidate("cpu", 1.0, is_cpu=True)], 1),
        ([candidate("cpu", 1.0, is_cpu=True), candidate("a", 1.0)], 0),
        ([candidate("a", 1.0), candidate("b", 1.0)], 0),
        ([candidate("a", None), candidate("b", 100.0)], 1),
        ([candidate("a", 0.1, ok=False), candidate("b", 100.0)], 1),
    ],
)
def test_the_smallest_score_wins(candidates: list[Candidate], winner: int) -> None:
    (placement,) = find_best_device_for_each_operation(add_model(), candidates, FAST)
    assert placement.device == winner
    assert "score" in placement.reason


def test_nobody_can() -> None:
    candidates = [candidate("a", 1.0, ok=False), candidate("b", 1.0, ok=False)]
    with pytest.raises(nd.Error, match=r"operation 0 ADD \(a: no rule; b: no rule\)"):
        find_best_device_for_each_operation(add_model(), candidates, FAST)


def test_m08_relaxed_models_use_the_relaxed_rows() -> None:
    builder = nd.ModelBuilder()
    first, second = (builder.add_operand(FLOAT, (2,)) for _ in range(2))
    none = builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(none, 0)
    builder.add_operation(nd.OperationType.ADD, [first, first, none], [second])
    builder.identify_inputs_and_outputs([first], [second])
    builder.relax_computation_float32_to_float16(True)
    model = builder.finish()
    capabilities = candidate("a", 1.0).capabilities
    (operation,) = model.main.operations
    assert score(model, operation, capabilities, FAST) == 0.125
    assert score(model, operation, capabilities, nd.Preference.LOW_POWER) == 0.25


def test_an_unlisted_type_is_infinitely_slow() -> None:
    model = add_model()
    capabilities = candidate("a", None).capabilities
    assert score(model, model.main.operations[0], capabilities, FAST) == math.inf
