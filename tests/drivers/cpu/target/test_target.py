"""The choice of a target: the best that the processor and the kernel allow, or a named one."""

import pytest

from neurald.drivers.cpu.target import target as subject
from neurald.drivers.cpu.target.target import TARGET_VARIABLE, TARGETS, host_target, runs_here
from neurald.drivers.settings import Settings
from neurald.hal.errors import BadData

ARM = frozenset(("asimd", "asimddp", "i8mm", "bf16"))


def chosen(name: str = "") -> str:
    environment = {TARGET_VARIABLE: name} if name else {}
    return host_target(Settings("NEURALD_CPU_", environment=environment)).name


def on(monkeypatch: pytest.MonkeyPatch, machine: str, features: frozenset[str]) -> None:
    monkeypatch.setattr(subject, "MACHINE", machine)
    monkeypatch.setattr(subject, "features", lambda: features)
    monkeypatch.setattr(subject, "may_use_tiles", lambda: True)


@pytest.mark.parametrize("name", [name for name in TARGETS if name != "generic"])
def test_the_best_target_is_chosen(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    target = TARGETS[name]
    on(monkeypatch, target.machine, target.needs)
    assert chosen() == name


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_targets_of_other_architectures_are_not_chosen(monkeypatch: pytest.MonkeyPatch, machine: str) -> None:
    on(monkeypatch, machine, frozenset[str]().union(*(each.needs for each in TARGETS.values())))
    assert TARGETS[chosen()].machine == machine
    other = next(each for each in TARGETS.values() if each.machine != machine and each.name != "generic")
    with pytest.raises(BadData, match=f"a target for {other.machine}; this is {machine}"):
        chosen(other.name)


def test_a_named_target(monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, "aarch64", ARM - {"i8mm"})
    assert chosen() == chosen("aarch64") == "aarch64"
    with pytest.raises(BadData, match="this processor lacks i8mm"):
        chosen("aarch64i8mm")
    with pytest.raises(BadData, match="expected one of amx, avx512vnni"):
        chosen("neon")


def test_without_permission_tiles_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    amx = TARGETS["amx"]
    on(monkeypatch, "x86_64", amx.needs)
    monkeypatch.setattr(subject, "may_use_tiles", lambda: False)
    assert not runs_here(amx)
    assert runs_here(TARGETS["avx512vnni"])
    with pytest.raises(BadData, match="lacks permission of the kernel"):
        chosen("amx")
