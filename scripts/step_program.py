#!/usr/bin/env python3
"""Compiles the step program of the CPU driver, as files of the package for some architectures.

With --check it fails if one of them is outdated.

Run with the environment's Python: .venv/bin/python scripts/step_program.py
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import llvmlite.binding as llvm

from neurald.drivers.cpu.native.objects.elf_linker import link
from neurald.drivers.cpu.native.programs.built_program import FILES, MAGIC, text_digest
from neurald.drivers.cpu.native.programs.step_program import step_program_text

FOLDER = Path(__file__).resolve().parents[1] / "drivers" / "cpu" / "native" / "programs"


def built(architecture: str) -> bytes:
    """Returns the content of the file for an architecture."""
    text = step_program_text(architecture)
    machine = llvm.Target.from_triple(f"{architecture}-unknown-linux-gnu").create_target_machine(
        cpu="x86-64" if architecture == "x86_64" else "", opt=2, reloc="pic", codemodel="small"
    )
    module = llvm.parse_assembly(text)
    module.verify()
    return MAGIC + text_digest(text) + link((machine.emit_object(module),)).encoded()


def main(arguments: Sequence[str]) -> int:
    """Writes or checks the files; returns the exit status."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    for architecture, name in FILES.items():
        file, content = FOLDER / name, built(architecture)
        if "--check" not in arguments:
            file.write_bytes(content)
        elif not file.is_file() or file.read_bytes() != content:
            sys.stderr.write(f"{file} is outdated; run scripts/step_program.py\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
