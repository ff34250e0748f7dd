import pytest
from support.devices.simulated import SimulatedDevice
from support.models.chains import chain

import neurald as nd
from neurald.hal.errors import BadData
from neurald.runtime.explain.explanation import Explanation
from neurald.service.console.delegation import (
    delegation,
    delegation_sentence,
    parse_requirements,
    require_devices,
    require_full_delegation,
)
from neurald.service.console.missing_devices import MissingDevices


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


def explanation(model: nd.Model) -> Explanation:
    return nd.CompilationBuilder(model, [nd.devices()[0]]).finish().explain()


def test_shares_of_the_operations_are_required() -> None:
    steps = [step("opencl@unix:///x.sock", 3), step("cpu", 1)]
    why = explanation(chain(["ADD"]))
    for text in ("opencl", "opencl=76", "opencl@unix:///x.sock=80", "cpu=26%"):
        (requirement,) = parse_requirements([text])
        with pytest.raises(BadData, match=r"% of the operations must run on .*; [31] of 4 did \((75|25) %\)"):
            requirement.check(steps, why)
    for requirement in parse_requirements(["opencl=75", "cpu=25", "cpu=0%", "npu=0"]):
        requirement.check(steps, why)


def test_a_requirement_that_does_not_hold_says_why() -> None:
    (requirement,) = parse_requirements(["gpu"])
    with pytest.raises(BadData, match="operation 0 ADD is on cpu: gpu was not among the devices"):
        requirement.check([step("cpu", 1)], explanation(chain(["ADD"])))
    failed = {**step("gpu", 1, instead=1), "failure": "it died"}
    with pytest.raises(BadData, match="0 of 1 did \\(0 %\\): gpu did not run its step: it died"):
        requirement.check([failed], explanation(chain(["ADD"])))
    with pytest.raises(BadData, match=r"operation 3 ADD is on cpu: .*; and 2 more"):
        requirement.check([step("cpu", 6)], explanation(chain(["ADD"] * 6)))


def test_unknown_devices_are_refused_with_those_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    devices = [SimulatedDevice("gpu@unix:///x.sock")]
    require_devices(parse_requirements(["gpu", "gpu@unix:///x.sock=5", "cpu=0"]), devices)
    missing = MissingDevices({"unix:///npu.sock": "it has no licence"}, ("unix:///tpu.sock",))
    monkeypatch.setattr(MissingDevices, "found", lambda: missing)
    expected = (
        r"names 'gp', 'npu', .* of the run are gpu@unix:///x\.sock, cpu; the driver at unix:///tpu\.sock is "
        r"starting .*; no device at unix:///npu\.sock: it has no licence"
    )
    with pytest.raises(BadData, match=expected):
        require_devices(parse_requirements(["gp=0", "gpu", "npu"]), devices)


@pytest.mark.parametrize("text", ["", "=5", "gpu=", "gpu=x", "gpu=101", "gpu=-1", "gpu=nan"])
def test_other_forms_are_refused(text: str) -> None:
    with pytest.raises(BadData, match="DEVICE=PERCENT"):
        parse_requirements([text])
