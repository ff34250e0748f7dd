"""Every lowering against Android's conformance records; graphs are evaluated with NumPy."""

from collections.abc import Callable

import pytest
from support.compiler.interpreted import InterpretedDevice
from support.files.data import NO_VECTORS, VECTORS, record_files_by_name
from support.operations.variants import VARIANTS
from support.tiers import one_in

from neurald.hal.errors import Error
from neurald.service.conformance.records import (
    build,
    compile_for,
    failures,
    load_records,
)

if VECTORS is None:
    pytest.skip(NO_VECTORS, allow_module_level=True)

SPECS = record_files_by_name()


@pytest.mark.parametrize("spec", one_in(8, SPECS))
def test_records(spec: str, record_property: Callable[[str, object], None]) -> None:
    device = InterpretedDevice()
    records = load_records(SPECS[spec])
    records += [variant for record in records for derive in VARIANTS.values() if (variant := derive(record))]
    claimed, reasons = [], set()
    for record in records:
        if record.expect_failure or record.referenced:
            continue
        try:
            verdicts = device.supported_operations(build(record, record.main))
        except Error:
            continue
        refused = [verdict.reason for verdict in verdicts if not verdict.ok]
        reasons.update(refused)
        if not refused:
            claimed.append(record)
    record_property("claimed", f"{len(claimed)} of {len(records)}; {'; '.join(sorted(reasons))}")
    assert not failures(claimed, compile_for(device))
    assert not failures(claimed, compile_for(InterpretedDevice(fused=True)))
