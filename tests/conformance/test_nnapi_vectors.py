"""Android's conformance records and their variants, on the CPU device.

They run in this process and behind a socket.
"""

from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from support.cpu.compiled_share import tell_compiled
from support.devices.places import in_places
from support.files.data import NO_VECTORS, VECTORS, record_files_by_name
from support.operations.variants import VARIANTS
from support.tiers import one_in, spread

import neurald as nd
from neurald.hal.operations import DEFINITIONS
from neurald.service.conformance.records import (
    Record,
    compile_for,
    failures,
    load_records,
)

if VECTORS is None:
    pytest.skip(NO_VECTORS, allow_module_level=True)

pytestmark = pytest.mark.usefixtures("compiles_here")

SPECS = record_files_by_name()
#: Numbers of records of a specification that the tier `default` runs as they are and as variants.
MOST_RECORDS = 30
MOST_VARIED_RECORDS = 12
IMPLEMENTED = {operation.name for operation in DEFINITIONS}


# With an odd number, the specs of the tier `default` alternate between the places.
@pytest.mark.parametrize(("spec", "device"), one_in(5, *in_places(SPECS, SPECS)), indirect=["device"])
def test_records(spec: str, device: nd.Device, record_property: Callable[[str, object], None]) -> None:
    records: Sequence[Record] = load_records(SPECS[spec])
    missing = set().union(*(record.op_types for record in records)) - IMPLEMENTED
    assert not missing, "every operation is implemented"
    kept: list[nd.Compilation] = []

    def compile_model(model: nd.Model) -> nd.Compilation:
        kept.append(compile_for(device)(model))
        return kept[-1]

    records = spread(MOST_RECORDS, records)
    for record in records:
        assert not failures([record], compile_model)
        if device is nd.devices()[0] and not record.expect_failure:
            tell_compiled(kept[-1], record_property)
    record_property("records", len(records))


@pytest.mark.parametrize(("spec", "device"), one_in(9, *in_places(SPECS, SPECS)), indirect=["device"])
def test_variants(spec: str, device: nd.Device, record_property: Callable[[str, object], None]) -> None:
    records = spread(MOST_VARIED_RECORDS, load_records(SPECS[spec]))
    counts: Counter[str] = Counter()
    lines = []
    for name, derive in VARIANTS.items():
        variants = [variant for record in records if (variant := derive(record)) is not None]
        counts[name] = len(variants)
        lines += [f"{name}: {line}" for line in failures(variants, compile_for(device))]
    assert not lines
    for name, count in counts.items():
        record_property(name, count)
