"""Android's conformance records and what derives from them, on the CPU device in process and behind a socket."""

from collections import Counter
from collections.abc import Callable

import pytest
from support.data import NO_VECTORS, VECTORS
from support.variants import VARIANTS

import neurald as nd
from neurald.hal.operations import DEFINITIONS
from neurald.service.conformance.records import compile_for, failures, load_records, record_files, spec_name

if VECTORS is None:
    pytest.skip(NO_VECTORS, allow_module_level=True)

SPECS = {spec_name(path): path for path in record_files(VECTORS)}
IMPLEMENTED = {operation.name for operation in DEFINITIONS}


@pytest.mark.parametrize("spec", SPECS)
def test_records(spec: str, device: nd.Device, record_property: Callable[[str, object], None]) -> None:
    records = load_records(SPECS[spec])
    missing = set().union(*(record.op_types for record in records)) - IMPLEMENTED
    assert not missing, "every operation is implemented"
    assert not failures(records, compile_for(device))
    record_property("records", len(records))


@pytest.mark.parametrize("spec", SPECS)
def test_variants(spec: str, device: nd.Device, record_property: Callable[[str, object], None]) -> None:
    records = load_records(SPECS[spec])
    counts: Counter[str] = Counter()
    lines = []
    for name, derive in VARIANTS.items():
        variants = [variant for record in records if (variant := derive(record)) is not None]
        counts[name] = len(variants)
        lines += [f"{name}: {line}" for line in failures(variants, compile_for(device))]
    assert not lines
    for name, count in counts.items():
        record_property(name, count)
