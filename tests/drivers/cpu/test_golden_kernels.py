"""LLVM IR of one kernel of every kind, compared with golden files.

NEURALD_UPDATE_GOLDEN=1 writes the IR to `golden` instead of comparing it.
"""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import llvmlite.binding as llvm
from support.cpu.golden_kernels import KERNELS, golden_text, modules
from support.sweeps import sweep

GOLDEN = Path(__file__).parent / "golden"
UPDATE_VARIABLE = "NEURALD_UPDATE_GOLDEN"
_TESTS = Path(__file__).parents[2]

#: Generates all kernels in reverse order and prints digests of their IR.
_PROGRAM = """
import hashlib, json
from support.cpu.golden_kernels import KERNELS, golden_text
print(json.dumps({name: hashlib.sha256(golden_text(name).encode()).hexdigest() for name in reversed(KERNELS)}))
"""


@sweep("name", KERNELS)
def test_the_ir_matches_its_golden_file(name: str) -> None:
    path, text = GOLDEN / f"{name}.ll", golden_text(name)
    if os.environ.get(UPDATE_VARIABLE):
        path.write_text(text)
    assert text == path.read_text(), f"{path.name} differs; {UPDATE_VARIABLE}=1 accepts the change"


@sweep("name", KERNELS)
def test_the_ir_is_valid(name: str) -> None:
    for module in modules(name):
        llvm.parse_assembly(module).verify()


def test_every_golden_file_belongs_to_a_kernel() -> None:
    assert {path.stem for path in GOLDEN.glob("*.ll")} == set(KERNELS)


@sweep("hash_seed", ["1", "2"])
def test_the_ir_does_not_depend_on_the_process(hash_seed: str) -> None:
    path = os.pathsep.join((str(_TESTS), str(_TESTS.parent / "src"), os.environ.get("PYTHONPATH", "")))
    run = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        check=True,
        text=True,
        timeout=120,
    )
    expected = {name: hashlib.sha256(golden_text(name).encode()).hexdigest() for name in KERNELS}
    assert json.loads(run.stdout) == expected
