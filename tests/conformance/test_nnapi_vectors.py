"""Android's conformance records and what derives from them, on the CPU device in process and behind a socket."""

from collections import Counter
from collections.abc import Callable

import pytest
from support.data import NO_VECTORS, VECTORS, load_module
from support.records import failures, is_implemented
from support.variants import VARIANTS

import neurald as nd

if VECTORS is None:
    pytest.skip(NO_VECTORS, allow_module_level=True)

LOADER = load_module(VECTORS / "load.py")
SPECS = [f"{path.parent.name}/{path.name.removesuffix('.json.gz')}" for path in LOADER.spec_files()]


@pytest.mark.parametrize("spec", SPECS)
def test_records(spec: str, device: nd.Device, record_property: Callable[[str, object], None]) -> None:
    assert VECTORS is not None
    records = LOADER.load_file(VECTORS / f"{spec}.json.gz")
    missing = {name for record in records if not is_implemented(record) for name in record.op_types}
    assert not missing, "every operation is implemented"
    assert not failures(LOADER, records, device)
    record_property("records", len(records))


@pytest.mark.parametrize("spec", SPECS)
def test_variants(spec: str, device: nd.Device, record_property: Callable[[str, object], None]) -> None:
    assert VECTORS is not None
    records = LOADER.load_file(VECTORS / f"{spec}.json.gz")
    counts: Counter[str] = Counter()
    lines = []
    for name, derive in VARIANTS.items():
        variants = [variant for record in records if (variant := derive(record)) is not None]
        counts[name] = len(variants)
        lines += [f"{name}: {line}" for line in failures(LOADER, variants, device)]
    assert not lines
    for name, count in counts.items():
        record_property(name, count)
