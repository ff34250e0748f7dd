"""Texts to object code, here and in other processes, and object code to functions."""

import ctypes

import pytest
from support.cpu_routines import TARGET, adding

from neurald.drivers.cpu import object_code
from neurald.drivers.cpu.llvm import CompilationFailed, LoadedCode
from neurald.drivers.cpu.object_code import Unit, object_codes, routine_unit


def answering(number: int, name: str | None = None) -> Unit:
    name = name or f"answer{number}"
    return Unit(name=name, text=f"define i32 @{name}() {{ ret i32 {number} }}\n")


def answer(code: bytes, name: str) -> int:
    loaded = LoadedCode((code,), (name,))
    return int(ctypes.CFUNCTYPE(ctypes.c_int32)(loaded.addresses[name])())


def test_functions_can_be_called() -> None:
    units = [answering(3), answering(4)]
    first, second = object_codes(units, TARGET)
    assert answer(first, "answer3") == 3
    assert answer(second, "answer4") == 4
    assert object_codes(units[::-1], TARGET) == [second, first]


def test_a_unit_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    unit = answering(5)
    code = object_codes([unit], TARGET)
    monkeypatch.setattr(object_code, "_compiled", None)
    assert object_codes([unit], TARGET) == code


def test_code_that_nobody_needs_any_more_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = object_code._Kept()
    monkeypatch.setattr(object_code, "_KEPT_BYTES", 100)
    for number in range(5):
        kept.put(("generic", str(number)), bytes(40))
        assert kept.get(("generic", "0")) is not None
    assert [number for number in range(5) if kept.get(("generic", str(number)))] == [0, 4]


def test_wrong_texts_are_refused() -> None:
    for text in ("define", "define i32 @f() { ret i64 0 }"):
        with pytest.raises(CompilationFailed, match="LLVM"):
            object_codes([Unit(name="wrong", text=text)], TARGET)


def test_code_without_a_function_is_refused() -> None:
    (code,) = object_codes([answering(6)], TARGET)
    with pytest.raises(CompilationFailed, match="other"):
        LoadedCode((code,), ("other",))


def test_other_processes_take_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_code, "_SHARE_BYTES", 1)
    units = [answering(number, f"shared{number}") for number in range(5)]
    codes = object_codes(units, TARGET, processes=3)
    assert [answer(code, unit.name) for code, unit in zip(codes, units, strict=True)] == list(range(5))


def test_a_process_that_fails_is_replaced(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(object_code, "_SHARE_BYTES", 1)
    monkeypatch.setattr(object_code, "_WORKER", object_code._WORKER.with_name("nothing.py"))
    units = [answering(number, f"alone{number}") for number in range(2)]
    codes = object_codes(units, TARGET, processes=2)
    assert [answer(code, unit.name) for code, unit in zip(codes, units, strict=True)] == [0, 1]
    assert "helps to compile" in caplog.text


def test_units_of_routines() -> None:
    routine = adding(1, 4)
    unit = routine_unit(routine)
    assert unit.name == routine.name
    assert f"@{routine.name}(" in unit.text
    assert "KERNEL_NAME" not in unit.text
