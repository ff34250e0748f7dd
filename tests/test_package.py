"""The package: its public names, links and imports."""

import ast
import inspect
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING

import pytest
from support.models.small import add_model
from support.sweeps import sweep

import neurald as nd
from neurald.hal import types
from neurald.hal.model import elements, graph, model, request
from neurald.hal.model import types as model_types
from neurald.hal.rpc.client.device import RemoteDevice
from neurald.runtime.devices.on_demand import OnDemandDevice

if TYPE_CHECKING:
    # If a misspelled name passes, mypy reports this comment as unused.
    nd.load_tflit  # type: ignore[attr-defined]  # noqa: B018

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("hal", "runtime", "drivers", "service")

#: Public names that applications depend on.
PROMISED = [
    "BadData",
    "BadState",
    "Burst",
    "Cancelled",
    "Compilation",
    "CompilationBuilder",
    "CompilationStatus",
    "CompiledFunction",
    "DeadObject",
    "Device",
    "DeviceType",
    "Duration",
    "Error",
    "Event",
    "Execution",
    "ExecutionReceipt",
    "FeatureLevel",
    "FusedActivation",
    "Incomplete",
    "Memory",
    "MemoryDesc",
    "MissedDeadlinePersistent",
    "MissedDeadlineTransient",
    "MissingFile",
    "Model",
    "ModelBuilder",
    "OpFailed",
    "OperandType",
    "OperationType",
    "OutOfMemory",
    "OutputInsufficientSize",
    "PaddingScheme",
    "Partitioning",
    "PartitioningMode",
    "Preference",
    "Priority",
    "ResourceExhaustedPersistent",
    "ResourceExhaustedTransient",
    "ResultCode",
    "ServedModel",
    "Service",
    "Startup",
    "StepProgress",
    "StepStatus",
    "StepTier",
    "TensorInfo",
    "Trace",
    "UnavailableDevice",
    "UnexpectedNull",
    "Unmappable",
    "Verdict",
    "WrongType",
    "compile",
    "connect",
    "connect_service",
    "devices",
    "forbid",
    "load_plan",
    "load_tflite",
    "metrics",
    "open_device",
    "pin",
    "prefer",
    "save_plan",
    "supported_operations",
    "trace",
    "warm",
]


def test_public_names() -> None:
    assert sorted(nd.__all__) == sorted(["__version__", *PROMISED])
    for name in nd.__all__:
        assert getattr(nd, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(nd, "nothing")  # noqa: B009 - type checkers know that there is none


def _public_callables() -> Iterator[tuple[str, FunctionType, str]]:
    """Yields the functions and methods of the package, with their documentation."""
    for name in PROMISED:
        found = getattr(nd, name)
        if isinstance(found, FunctionType):
            yield name, found, inspect.getdoc(found) or ""
        elif inspect.isclass(found) and not issubclass(found, Enum | BaseException):
            own = [base for base in found.__mro__ if base.__module__.startswith("neurald.")]
            for method, value in (pair for base in own for pair in vars(base).items()):
                function = getattr(value, "__func__", value)
                is_public = not method.startswith("_") or method == "__call__"
                if isinstance(function, FunctionType) and is_public:
                    yield f"{name}.{method}", function, inspect.getdoc(function) or ""


def test_help_says_what_every_argument_is() -> None:
    missing = [
        f"{name}: {argument}"
        for name, function, documentation in _public_callables()
        for argument in inspect.signature(function).parameters
        if argument not in ("self", "cls") and not re.search(rf"\b{argument}\b", documentation)
    ]
    assert missing == []


def test_consoles_show_what_public_objects_are() -> None:
    """Objects say more than an address."""
    classes: list[type] = [each for name in PROMISED if isinstance(each := getattr(nd, name), type)]
    classes += [RemoteDevice, OnDemandDevice, *(type(nd.open_device(name)) for name in ("cpu", "reference"))]
    shown_as_addresses = [
        each.__name__ for each in classes if not any("__repr__" in vars(base) for base in each.__mro__[:-1])
    ]
    assert shown_as_addresses == ["Device"]  # The Protocol, which drivers implement.
    assert repr(nd.open_device("cpu")) == "<CPU device 'cpu'>"
    builder = nd.ModelBuilder()
    assert repr(builder) == "<ModelBuilder of 0 operands and 0 operations, open>"
    assert repr(nd.Memory.allocate(3)) == "<SharedMemory of 3 bytes>"
    compilation_builder = nd.CompilationBuilder(add_model((2,)))
    compilation = compilation_builder.finish()
    assert re.fullmatch(
        r"<CompilationBuilder of <Model .*> for any device, finished>", repr(compilation_builder)
    )
    execution = nd.Execution(compilation)
    assert repr(execution) == f"<Execution of {compilation!r}, preparation>"
    with nd.Burst(compilation) as burst:
        assert repr(burst) == f"<Burst of {compilation!r}>"
    assert repr(burst) == f"<Burst of {compilation!r}, closed>"
    assert (repr(nd.Event()), repr(nd.MemoryDesc())) == ("<Event, under way>", "<MemoryDesc of 0 roles>")
    with nd.trace() as trace:
        assert repr(trace) == f"<Trace {trace.trace_id}: 0 spans>"


def test_hal_types_keep_their_path() -> None:
    """`neurald.hal.types` has every public name of the modules that it exports."""
    homes = (elements, graph, model, request, model_types)
    defined = {name: home for home in homes for name in _defined(home)}
    assert defined.keys() <= set(types.__all__)
    for name, home in defined.items():
        assert getattr(types, name) is getattr(home, name)
    assert types.OperationType is nd.OperationType


def _defined(module: ModuleType) -> Iterator[str]:
    """Yields the public classes and functions that a module defines."""
    assert module.__file__ is not None
    for node in ast.parse(Path(module.__file__).read_text()).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
            yield node.name


def test_importing_it_loads_nothing_heavy() -> None:
    code = "import sys, neurald; print(sorted({'numpy', 'grpc', 'rich', 'PIL', 'tflite'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_lost_link_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(nd._HOMES, "lost", "nowhere.at_all")
    with pytest.raises(ImportError, match="lost its links"):
        getattr(nd, "lost")  # noqa: B009


@sweep("folder", FOLDERS)
def test_folders_are_linked(folder: str) -> None:
    link = ROOT / "src" / "neurald" / folder
    assert link.resolve() == ROOT / folder


#: An import that may be one of a folder. Files without any are not parsed, which takes long.
_IMPORT = re.compile(rf"^\s*(?:from\s+|import\s.*?)\b(?:{'|'.join(FOLDERS)})\b", re.MULTILINE)


def imported_roots(path: Path) -> set[str]:
    text = path.read_text()
    if _IMPORT.search(text) is None:
        return set()
    tree = ast.parse(text)
    names = [a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names]
    names += [
        node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and not node.level
    ]
    return {name.split(".")[0] for name in names}


def test_imports_use_the_package_name() -> None:
    """`import hal` would load a second copy of every type."""
    folders = [ROOT / name for name in (*FOLDERS, "tests", "scripts")]
    guilty = [
        str(path.relative_to(ROOT))
        for folder in folders
        for path in folder.rglob("*.py")
        if imported_roots(path) & set(FOLDERS)
    ]
    assert not guilty


def test_the_package_includes_all_files_that_are_not_python() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"]["*"]
    listed = subprocess.run(
        ["git", "ls-files", *FOLDERS], cwd=ROOT, capture_output=True, text=True, check=True
    )
    others = [path for path in listed.stdout.split() if not path.endswith(".py")]
    assert others
    assert [path for path in others if not any(Path(path).match(pattern) for pattern in patterns)] == []
