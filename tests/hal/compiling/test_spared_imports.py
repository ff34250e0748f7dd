"""Tests that what a compiling process leaves out exists, and that nothing needs it."""

import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec

import pytest

from neurald.drivers.cpu.device import CpuDevice
from neurald.hal.compiling import spared_imports
from neurald.hal.compiling.contract import spares_imports


@pytest.mark.parametrize(
    "name", [*spared_imports._DOCUMENTATION, *spared_imports._UNUSED, *spared_imports._ANNOTATIONS]
)
def test_what_is_spared_exists(name: str) -> None:
    assert find_spec(name) is not None


def _run(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout


def test_packages_work_without_what_is_spared() -> None:
    program = """
from neurald.hal.compiling.spared_imports import spare_imports
spare_imports()
import sys
import numpy as np
import llvmlite.binding as llvm
import msgspec

class Pair(msgspec.Struct):
    first: int
    second: "list[float] | None" = None

assert msgspec.json.decode(b'{"first": 1, "second": [2]}', type=Pair) == Pair(1, [2.0])
assert np.linalg.norm(np.float32([3, 4])) == 5
llvm.initialize_native_target()
assert str(llvm.parse_assembly("define i32 @f() { ret i32 1 }").get_function("f").type)
print(sorted(name for name in sys.modules if name.startswith("llvmlite.ir.")))
print(sys.modules["typing_extensions"], "dis" in sys.modules)
"""
    assert _run(program).split("\n") == ["[]", "None False", ""]


def test_functions_are_inspected_by_whoever_does_more_than_document_them() -> None:
    program = """
from neurald.hal.compiling.spared_imports import spare_imports
spare_imports()
import inspect
assert inspect.signature(len) is None and not hasattr(inspect, "__path__")
first = inspect
from inspect import isfunction
import inspect
print(isfunction(spare_imports), first.ismodule(inspect), inspect.signature(spare_imports))
"""
    assert _run(program) == "True True () -> None\n"


def test_functions_of_numpy_that_import_more_when_they_are_called() -> None:
    program = """
from neurald.hal.compiling.spared_imports import spare_imports
spare_imports()
import numpy as np
print(np.unique([2, 1, 2]).tolist())
"""
    assert _run(program) == "[1, 2]\n"


def test_what_is_imported_already_stays() -> None:
    program = """
import numpy as np, llvmlite.ir as ir
from neurald.hal.compiling.spared_imports import spare_imports
spare_imports()
import llvmlite.ir, numpy._typing
assert llvmlite.ir is ir and ir.IntType(8) and np.zeros.__doc__
print(hasattr(numpy._typing, "__path__"))
"""
    assert _run(program) == "True\n"


def test_files_of_packages_are_found_again_after_llvmlite_has_its_library() -> None:
    program = """
from neurald.hal.compiling.spared_imports import spare_imports
spare_imports()
import sys
import llvmlite.binding as llvm
assert "importlib.resources" not in sys.modules and "zipfile" not in sys.modules
from importlib.resources import files
print((files("llvmlite") / "binding" / "__init__.py").is_file(), llvm.llvm_version_info[0] > 9)
"""
    assert _run(program) == "True True\n"


@pytest.mark.parametrize("name", spared_imports._SELDOM)
def test_what_is_postponed_is_imported_when_it_is_used(name: str) -> None:
    program = f"""
from neurald.hal.compiling.spared_imports import spare_imports
spare_imports()
import sys
import logging, pathlib, socket, uuid
import numpy
from neurald.hal.process import address
from neurald.drivers.cpu.target import processor
assert not hasattr(sys.modules[{name!r}], "__file__"), "nothing has needed it"
import ast, pickle, platform, selectors, traceback, urllib.parse
used = {{
    "ast": lambda: ast.literal_eval("[1]"),
    "pickle": lambda: pickle.loads(pickle.dumps([1])),
    "platform": lambda: [1] * bool(platform.python_version()),
    "selectors": lambda: [1] * hasattr(selectors, "PollSelector"),
    "traceback": lambda: [1] * len(traceback.format_exception(ValueError("a"))),
    "urllib.parse": lambda: [1] * (pathlib.Path("/a b").as_uri() == "file:///a%20b"),
}}
print(used[{name!r}](), hasattr(sys.modules[{name!r}], "__file__"))
"""
    assert _run(program) == "[1] True\n"


def test_stand_ins_agree_with_what_they_stand_for() -> None:
    for module, found in spared_imports._TAKEN.items():
        for name, function in found.items():
            arguments = ("a b",) if name == "quote" else (b"a b",) if name == "quote_from_bytes" else ()
            assert function(*arguments) == getattr(import_module(module), name)(*arguments)


def test_dunder_names_are_no_types() -> None:
    with pytest.raises(AttributeError, match="__path__"):
        spared_imports._any_type("__path__")


def test_only_devices_that_say_so_spare_imports() -> None:
    class Other:
        name = "other"

    assert spares_imports(CpuDevice())
    assert not spares_imports(Other())  # type: ignore[arg-type]
