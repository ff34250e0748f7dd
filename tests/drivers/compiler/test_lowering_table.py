"""The table of lowerings, whose families are imported when they are needed."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from neurald.drivers.compiler import lowering
from neurald.drivers.compiler.lowering import LOWERINGS

FAMILIES = lowering._FAMILIES


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_has_what_the_table_says(name: str) -> None:
    family = import_module(f"{lowering.__name__}.{name}")
    assert set(FAMILIES[name]) == set(family.LOWERINGS)
    for kind in FAMILIES[name]:
        assert LOWERINGS[kind] is family.LOWERINGS[kind]


def test_no_family_is_left_out() -> None:
    (folder,) = lowering.__path__
    files = [path for path in Path(folder).rglob("*.py") if "\nLOWERINGS" in path.read_text()]
    names = {".".join(path.relative_to(folder).with_suffix("").parts) for path in files} - {"__init__"}
    assert names == set(FAMILIES)


def test_families_are_imported_when_they_are_needed() -> None:
    program = (
        "import sys\n"
        "from neurald.drivers.compiler.lowering import LOWERINGS\n"
        "from neurald.hal.operation_type import OperationType\n"
        "LOWERINGS[OperationType.ADD]\n"
        "print('neurald.drivers.compiler.lowering.lstm' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
