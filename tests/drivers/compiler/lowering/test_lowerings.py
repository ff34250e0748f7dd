"""The table of lowerings, which imports families on demand."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

from support.sweeps import sweep

from neurald.drivers.compiler import lowering
from neurald.drivers.compiler.lowering import LOWERINGS
from neurald.drivers.compiler.lowering.machinery.table import Lowering
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations import DEFINITIONS


def test_the_table_has_the_lowerings_of_all_families() -> None:
    (folder,) = lowering.__path__
    files = [path for path in Path(folder).rglob("*.py") if "\nLOWERINGS" in path.read_text()]
    files.remove(Path(folder) / "__init__.py")
    lowered: dict[OperationType, Lowering] = {}
    for path in files:
        name = ".".join(path.relative_to(folder).with_suffix("").parts)
        family = import_module(f"{lowering.__name__}.{name}").LOWERINGS
        assert not lowered.keys() & family.keys()
        lowered.update(family)
    assert dict(LOWERINGS) == lowered
    assert lowered.keys() <= DEFINITIONS.keys()


@sweep("kind", [OperationType.WHILE, OperationType.BOX_WITH_NMS_LIMIT])
def test_operations_without_lowerings(kind: OperationType) -> None:
    assert kind not in LOWERINGS
    assert LOWERINGS.get(kind) is None


def test_families_are_imported_when_they_are_needed() -> None:
    program = (
        "import sys\n"
        "from neurald.drivers.compiler.lowering import LOWERINGS\n"
        "from neurald.hal.model.operation_type import OperationType\n"
        "LOWERINGS[OperationType.ADD]\n"
        "print('neurald.drivers.compiler.lowering.recurrent.lstm' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
