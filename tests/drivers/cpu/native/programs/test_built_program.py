"""The step program of the package: it is that of the text, and nothing else is used."""

from pathlib import Path

import pytest

from neurald.drivers.cpu.native.objects.image import decoded
from neurald.drivers.cpu.native.objects.llvm import TargetMachine, link_image
from neurald.drivers.cpu.native.programs import built_program as subject
from neurald.drivers.cpu.native.programs.built_program import FILES, MAGIC, program_of, text_digest
from neurald.drivers.cpu.native.programs.step_program import COMMON_ARGUMENTS, caller_name, step_program_text
from neurald.drivers.cpu.native.thread_pool import StepProgram, process
from neurald.drivers.cpu.target.processor import MACHINE
from neurald.drivers.cpu.target.target import TARGETS, host_target
from neurald.drivers.settings import Settings
from neurald.hal.errors import BadData


def built_program(text: str) -> bytes | None:
    return program_of(text_digest(text))


pytestmark = pytest.mark.skipif(MACHINE not in FILES, reason="the package has no file for this machine")


def test_the_files_are_compiled_from_the_text() -> None:
    for machine, name in FILES.items():
        head = MAGIC + text_digest(step_program_text(machine))
        path = Path(subject.__file__).with_name(name)
        assert path.read_bytes().startswith(head), "run scripts/native_programs.py"
    code = built_program(step_program_text())
    assert code is not None
    assert MAGIC not in code


def test_it_has_the_functions_of_a_compiled_one() -> None:
    code = built_program(step_program_text())
    assert code is not None
    target = host_target(Settings("NEURALD_CPU_", environment={}))
    (compiled,) = link_image((TargetMachine.of(target).object_code(step_program_text()),))
    built, other = decoded(code), decoded(compiled)
    assert built.functions.keys() == other.functions.keys()
    assert sorted(name for name, _ in built.imports) == sorted(name for name, _ in other.imports)


def test_it_has_the_callers_of_common_functions() -> None:
    code = built_program(step_program_text())
    assert code is not None
    addresses = StepProgram(code).addresses
    assert all(caller_name(count) in addresses for count in range(1, COMMON_ARGUMENTS + 1))
    assert caller_name(COMMON_ARGUMENTS + 1) not in addresses


def test_artifacts_have_its_digest() -> None:
    digest, code = text_digest(step_program_text()), built_program(step_program_text())
    assert code is not None
    assert program_of(digest) == code
    assert StepProgram(code).stored == code
    first, again = type(process)(), type(process)()
    program = first.step_program(TARGETS["generic"])
    assert program.stored == digest
    assert again.step_program(TARGETS["generic"], digest).addresses.keys() == program.addresses.keys()


@pytest.mark.parametrize("stored", [bytes(32), b"x" * 32, text_digest("another text")])
def test_digests_of_others_are_refused(stored: bytes) -> None:
    assert program_of(stored) is None
    state = type(process)()
    with pytest.raises(BadData):
        state.step_program(TARGETS["generic"], stored)
    assert state.load_step_program()


def test_a_changed_text_is_compiled() -> None:
    assert built_program(step_program_text() + "\n") is None


def test_another_architecture_compiles_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "MACHINE", "riscv64")
    assert built_program(step_program_text()) is None


def test_without_the_file_it_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "FILES", {MACHINE: "missing.image"})
    assert built_program(step_program_text()) is None
