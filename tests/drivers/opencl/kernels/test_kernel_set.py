"""Sets of kernels: what each permits, that it is part of the version, and that results agree."""

from collections.abc import Sequence

import numpy as np
import pytest
from support.opencl.blocks import Block
from support.opencl.models import expect_close, random_inputs, run
from support.opencl.warps import with_tensor_cores
from support.sweeps import sweep

from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.compiler import compile_model
from neurald.drivers.opencl.device import OpenClDevice, create
from neurald.drivers.opencl.kernels.fused.chains import KernelChain
from neurald.drivers.opencl.kernels.kernel_set import KERNELS_VARIABLE, KernelSet
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.platform.precision import Precision
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.device import PrepareOptions
from neurald.hal.errors import BadData


def offered(opencl: DeviceContext, kernel_set: KernelSet) -> tuple[int, list[int]]:
    """Returns the number of chains, and of sources for each kernel, of a block of three layers on a
    GPU.
    """
    found: list[tuple[int, list[int]]] = []

    def choose(kernels: Sequence[Sequence[Source]], chains: Sequence[KernelChain]) -> list[Source | None]:
        found.append((len(chains), [len(list(sources)) for sources in kernels]))
        return [sources[0] for sources in kernels]

    compile_model(
        Block().model(),
        {},
        with_tensor_cores(opencl.facts),
        precision=Precision.F32,
        choose=choose,
        kernel_set=kernel_set,
    )
    ((chains, sources),) = found
    return chains, sources


def test_sources_of_each_set(opencl: DeviceContext) -> None:
    chains, sources = offered(opencl, KernelSet.ALL)
    assert chains > 0
    assert max(sources) > 1
    assert offered(opencl, KernelSet.SINGLE) == (0, sources)
    chains, sources = offered(opencl, KernelSet.GENERIC)
    assert chains == 0
    assert set(sources) == {1}


@sweep("name", [each.value for each in KernelSet])
def test_results_agree(opencl: DeviceContext, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(KERNELS_VARIABLE, name)
    model = Block().model()
    inputs = random_inputs(model)
    expected = run(ReferenceDevice().prepare_model(model, PrepareOptions()), model, inputs)
    results = run(OpenClDevice(opencl.facts).prepare_model(model, PrepareOptions()), model, inputs)
    expect_close([np.asarray(each) for each in results], expected)


def test_the_set_is_part_of_the_version(opencl: DeviceContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KERNELS_VARIABLE, raising=False)
    plain = create().version
    monkeypatch.setenv(KERNELS_VARIABLE, "generic")
    assert create().version != plain
    monkeypatch.setenv(KERNELS_VARIABLE, "some")
    with pytest.raises(BadData, match="one of all, single, generic is expected"):
        OpenClDevice(opencl.facts).prepare_model(Block().model(), PrepareOptions())
