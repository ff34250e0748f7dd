"""Tables that import the modules of their values, and that miss none of the values."""

import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType

import pytest

import neurald.hal.operations as operations
import neurald.runtime.tflite.legalization as legalization
from neurald.hal.model.lazy_table import LazyTable
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations import DEFINITIONS, WIDER
from neurald.runtime.tflite.legalization import LEGALIZATIONS


def table() -> LazyTable[str, object]:
    def part(module: ModuleType) -> Mapping[str, object]:
        return {name: getattr(module, name) for name in module.__all__ if isinstance(name, str)}

    return LazyTable("json", {"decoder": ("JSONDecoder",), "encoder": ("nothing",)}, part)


def test_a_table() -> None:
    found = table()
    assert list(found) == ["JSONDecoder", "nothing"]
    assert len(found) == 2
    assert "JSONDecoder" in found
    assert "other" not in found
    assert found["JSONDecoder"] is found.get("JSONDecoder") is import_module("json.decoder").JSONDecoder
    assert found.get("other") is None
    assert found.get("other", 3) == 3
    with pytest.raises(KeyError):
        found["other"]


def families(package: ModuleType, name: str) -> list[ModuleType]:
    """Returns the modules in a package and its rooms that have a table of that name."""
    modules = (import_module(found.name) for found in walk_packages(package.__path__, f"{package.__name__}."))
    return [module for module in modules if hasattr(module, name)]


def test_every_definition_is_in_the_table() -> None:
    defined = {}
    widening = {}
    for module in families(operations, "DEFINITIONS"):
        for definition in module.DEFINITIONS:
            assert definition.type not in defined
            defined[definition.type] = definition
            if definition.widens is not None:
                widening[definition.widens] = definition
    assert dict(DEFINITIONS) == defined
    assert dict(WIDER) == widening
    for operation_type in OperationType:
        assert DEFINITIONS.get(operation_type) is defined.get(operation_type)


def test_every_legalization_is_in_the_table() -> None:
    rules: dict[int, object] = {}
    for module in families(legalization, "LEGALIZATIONS"):
        assert not rules.keys() & module.LEGALIZATIONS.keys()
        rules.update(module.LEGALIZATIONS)
    assert dict(LEGALIZATIONS) == rules


def test_what_is_not_asked_for_is_not_imported() -> None:
    program = """
import sys
import neurald
from neurald.hal.operations import DEFINITIONS
neurald.load_tflite, neurald.CompilationBuilder, neurald.devices()
DEFINITIONS[neurald.OperationType.ADD]
heavy = ("hal.operations.recurrent.lstm", "runtime.tflite.legalization.convolution.convolution", "drivers.compiler.ir.graph", "drivers.cpu.preparation")
print([name for name in (*(f"neurald.{each}" for each in heavy), "llvmlite.binding", "tflite") if name in sys.modules])
"""
    said = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True)
    assert said.stdout.strip() == "[]"


def test_definitions_and_open_models_come_without_what_only_their_execution_needs() -> None:
    program = """
import sys
from neurald.drivers.compiler.frontend.control_flow.slices import counted_slices
from neurald.drivers.compiler.frontend.variants import shape_specialization
from neurald.hal.operations import DEFINITIONS
from neurald.hal.model.operation_type import OperationType as T

for kind in (T.TFLITE_FULLY_CONNECTED, T.TFLITE_CONV_2D, T.TFLITE_BATCH_MATMUL, T.RNN):
    DEFINITIONS[kind]
late = (
    "hal.operations.arithmetic.row_quantization",
    "drivers.compiler.frontend.variants.open_models",
    "drivers.compiler.frontend.variants.pending_variants",
    "drivers.compiler.ir.complex_numbers",
)
print([name for name in late if f"neurald.{name}" in sys.modules])
"""
    said = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True)
    assert said.stdout.strip() == "[]"
