"""Android's conformance records, with models split over two daemons and the CPU device."""

from collections.abc import Callable, Iterator

import pytest
from support.daemon.processes import running_daemon
from support.files.data import NO_VECTORS, VECTORS, record_files_by_name
from support.operations.variants import inputs_as_internal
from support.tiers import one_in, spread

import neurald as nd
from neurald.service.conformance.records import failures, load_records

if VECTORS is None:
    pytest.skip(NO_VECTORS, allow_module_level=True)

pytestmark = pytest.mark.usefixtures("compiles_here")

SPECS = record_files_by_name()
#: Number of records of a specification that the tier `default` runs.
MOST_RECORDS = 12


# Later tests of this process would choose these devices.
@pytest.fixture(scope="module")
def split_devices() -> Iterator[list[nd.Device]]:
    with (
        running_daemon("support.devices.thirds:create_first") as first,
        running_daemon("support.devices.thirds:create_second") as second,
    ):
        yield [nd.connect(first), nd.connect(second), nd.devices()[0]]


@pytest.mark.sampled(2)
@pytest.mark.slow
@pytest.mark.parametrize("spec", one_in(8, SPECS))
def test_records(
    spec: str, split_devices: list[nd.Device], record_property: Callable[[str, object], None]
) -> None:
    steps: list[int] = []

    def compile_model(model: nd.Model) -> nd.Compilation:
        builder = nd.CompilationBuilder(model, split_devices)
        builder.set_caching(None)  # thousands of models, each compiled once
        compilation = builder.finish()
        steps.append(len(compilation.plan.steps))
        return compilation

    records = spread(MOST_RECORDS, load_records(SPECS[spec]))
    assert not failures(records, compile_model)
    variants = [variant for record in records if (variant := inputs_as_internal(record)) is not None]
    assert not failures(variants, compile_model)
    record_property("records and variants over three devices", len(steps))
    record_property("of these in several steps", sum(count > 1 for count in steps))
