"""The choice of a target: the best that the processor and the kernel allow, or a named one."""

import re
from pathlib import Path

import llvmlite.binding as llvm
import pytest
from support.cpu.native import target_machine

from neurald.drivers.cpu.target import target as subject
from neurald.drivers.cpu.target.target import TARGET_VARIABLE, TARGETS, host_target, runs_here
from neurald.drivers.settings import Settings
from neurald.hal.errors import BadData

ARM = frozenset(("asimd", "asimdhp", "asimddp", "i8mm", "bf16"))
#: Functions for which LLVM uses scalar instructions that not every processor has.
SCALAR = """
declare i64 @llvm.ctlz.i64(i64, i1)
declare i64 @llvm.cttz.i64(i64, i1)
declare i64 @llvm.ctpop.i64(i64)
declare i64 @llvm.bswap.i64(i64)
define i64 @leading(i64 %x) {
  %y = call i64 @llvm.ctlz.i64(i64 %x, i1 false)
  ret i64 %y
}
define i64 @trailing(i64 %x) {
  %y = call i64 @llvm.cttz.i64(i64 %x, i1 false)
  ret i64 %y
}
define i64 @count(i64 %x) {
  %y = call i64 @llvm.ctpop.i64(i64 %x)
  ret i64 %y
}
define void @swap(i64 %x, ptr %p) {
  %y = call i64 @llvm.bswap.i64(i64 %x)
  store i64 %y, ptr %p
  ret void
}
define i64 @without(i64 %x, i64 %y) {
  %n = xor i64 %x, -1
  %z = and i64 %n, %y
  ret i64 %z
}
define i64 @shifted(i64 %x, i64 %n) {
  %y = shl i64 %x, %n
  ret i64 %y
}
"""
#: The features of their instructions, as in /proc/cpuinfo.
FEATURES = {
    "lzcnt": "abm",
    "tzcnt": "bmi1",
    "andn": "bmi1",
    "popcnt": "popcnt",
    "movbe": "movbe",
    "shlx": "bmi2",
}


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
    assert chosen() == chosen("aarch64dotprod") == "aarch64dotprod"
    assert chosen("aarch64") == "aarch64"
    with pytest.raises(BadData, match="this processor lacks i8mm"):
        chosen("aarch64i8mm")
    with pytest.raises(BadData, match="expected one of amx, avx512fp16"):
        chosen("neon")


def test_without_permission_tiles_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    amx = TARGETS["amx"]
    on(monkeypatch, "x86_64", amx.needs)
    monkeypatch.setattr(subject, "may_use_tiles", lambda: False)
    assert not runs_here(amx)
    assert runs_here(TARGETS["avx512vnni"])
    with pytest.raises(BadData, match="lacks permission of the kernel"):
        chosen("amx")


@pytest.mark.parametrize("name", [name for name in TARGETS if TARGETS[name].machine == "x86_64"])
def test_code_uses_no_feature_that_is_not_needed(name: str) -> None:
    target = TARGETS[name]
    machine = target_machine(target)
    if not machine.triple.startswith("x86_64"):
        pytest.skip("LLVM generates code for another architecture")
    module = llvm.parse_assembly(SCALAR)
    text = machine.emit_assembly(module)
    used = {
        feature
        for instruction, feature in FEATURES.items()
        if re.search(rf"^\t{instruction}[lq]?\t", text, re.M)
    }
    assert used <= target.needs
    assert (used == set(FEATURES.values())) is (name != "generic")


@pytest.mark.parametrize("hidden", sorted(TARGETS["avx512"].needs))
def test_a_processor_that_lacks_one_feature_gets_another_target(
    monkeypatch: pytest.MonkeyPatch, hidden: str
) -> None:
    on(monkeypatch, "x86_64", TARGETS["avx512vnni"].needs - {hidden})
    assert chosen() == ("avx2" if hidden.startswith("avx512") else "generic")


def test_the_page_of_variables_lists_every_target() -> None:
    page = Path(__file__).parents[4] / "docs" / "environment.md"
    (row,) = (line for line in page.read_text(encoding="utf-8").splitlines() if TARGET_VARIABLE in line)
    assert {name for name in TARGETS if f"`{name}`" not in row} == set()
