#!/usr/bin/env python3
"""Compiles the step program of the CPU driver for x86-64, as a file of the package.

With --check it fails if that file is outdated.

Run with the environment's Python: .venv/bin/python scripts/step_program.py
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import llvmlite.binding as llvm

from neurald.drivers.cpu.native.built_program import FILE, MAGIC, text_digest
from neurald.drivers.cpu.native.elf_linker import link
from neurald.drivers.cpu.native.step_program import step_program_text

TARGET = Path(__file__).resolve().parents[1] / "drivers" / "cpu" / "native" / FILE


def built() -> bytes:
    """Returns the content of the file."""
    text = step_program_text("x86_64")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple("x86_64-unknown-linux-gnu").create_target_machine(
        cpu="x86-64", opt=2, reloc="pic", codemodel="small"
    )
    module = llvm.parse_assembly(text)
    module.verify()
    return MAGIC + text_digest(text) + link((machine.emit_object(module),)).encoded()


def main(arguments: Sequence[str]) -> int:
    """Writes or checks the file; returns the exit status."""
    content = built()
    if "--check" not in arguments:
        TARGET.write_bytes(content)
    elif not TARGET.is_file() or TARGET.read_bytes() != content:
        sys.stderr.write(f"{TARGET} is outdated; run scripts/step_program.py\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
