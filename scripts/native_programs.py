#!/usr/bin/env python3
"""Compiles the native programs of the package, as files of it for some architectures.

They are the step program of the CPU driver, and the guarded copies of the execution service. With
--check it fails if one of the files is outdated.

Run with the environment's Python: .venv/bin/python scripts/native_programs.py
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import llvmlite.binding as llvm
from msgspec import Struct

from neurald.drivers.cpu.native.objects.elf_linker import link
from neurald.drivers.cpu.native.programs import built_program
from neurald.drivers.cpu.native.programs.built_program import text_digest
from neurald.drivers.cpu.native.programs.step_program import step_program_text
from neurald.service.inference.mapping import guarded_copy

ROOT = Path(__file__).resolve().parents[1]


class Program(Struct, frozen=True, kw_only=True):
    """A program that is compiled beforehand.

    Attributes:
        folder: where its files are.
        files: their names, by architecture.
        head: what they begin with, before the digest of the text.
        text: returns the LLVM IR for an architecture.
    """

    folder: Path
    files: Mapping[str, str]
    head: bytes = b""
    text: Callable[[str], str]


PROGRAMS = (
    Program(
        folder=ROOT / "drivers" / "cpu" / "native" / "programs",
        files=built_program.FILES,
        head=built_program.MAGIC,
        text=step_program_text,
    ),
    Program(
        folder=ROOT / "service" / "inference" / "mapping",
        files=guarded_copy.FILES,
        text=lambda _: guarded_copy.text(),
    ),
)


def built(program: Program, architecture: str) -> bytes:
    """Returns the content of the file for an architecture."""
    text = program.text(architecture)
    machine = llvm.Target.from_triple(f"{architecture}-unknown-linux-gnu").create_target_machine(
        cpu="x86-64" if architecture == "x86_64" else "", opt=2, reloc="pic", codemodel="small"
    )
    module = llvm.parse_assembly(text)
    module.verify()
    return program.head + text_digest(text) + link((machine.emit_object(module),)).encoded()


def main(arguments: Sequence[str]) -> int:
    """Writes or checks the files; returns the exit status."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    for program in PROGRAMS:
        for architecture, name in program.files.items():
            file, content = program.folder / name, built(program, architecture)
            if "--check" not in arguments:
                file.write_bytes(content)
            elif not file.is_file() or file.read_bytes() != content:
                sys.stderr.write(f"{file} is outdated; run scripts/native_programs.py\n")
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
