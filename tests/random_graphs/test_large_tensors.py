"""Networks of large tensors have the same results compiled as on the references."""

from pathlib import Path

import numpy as np
from random_graphs.large_tensors import LargeNetwork
from support.models.plans import compiled
from support.sweeps import sweep

from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.reference.device import ReferenceDevice
from neurald.runtime.tflite import load_tflite

SEEDS = range(60)


@sweep("seed", SEEDS[:10], full=SEEDS[10:])
def test_compiled_networks_equal_the_references(seed: int, tmp_path: Path) -> None:
    network = LargeNetwork(seed)
    model = load_tflite(network.file.write(tmp_path / f"{seed}.tflite"))
    wanted = compiled(model, ReferenceDevice()).run(network.input)
    found = compiled(model, CpuDevice()).run(network.input)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
