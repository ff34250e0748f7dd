"""Random networks whose lengths follow from data give the results of the references."""

import numpy as np
from random_graphs.data_lengths.network import DataNetwork
from random_graphs.data_programs import WAYS, data_mismatch
from support.sweeps import sweep

import neurald as nd
from neurald.drivers.reference.device import ReferenceDevice

SEEDS = range(60)


@sweep("way", WAYS)
@sweep("seed", SEEDS[:4], full=SEEDS[4:])
def test_networks_equal_the_references(way: str, seed: int, compiles_here: None) -> None:
    assert data_mismatch(seed, way) == ""


def test_a_network_depends_on_its_seed_only() -> None:
    first, second = DataNetwork(3), DataNetwork(3)
    assert first.file.build() == second.file.build()
    for one, other in zip(first.arrays(5), second.arrays(5), strict=True):
        np.testing.assert_array_equal(one, other)


def test_most_networks_compute_something() -> None:
    """Sizes that do not fit are part of the networks, but must not prevail."""
    computed = elements = 0
    for seed in SEEDS[:12]:
        network = DataNetwork(seed)
        try:
            model = nd.load_tflite(network.file.build())
        except nd.Error:
            continue
        run = nd.CompilationBuilder(model, [ReferenceDevice()]).finish().run
        for number in range(4):
            try:
                results = run(*network.arrays(number))
            except nd.Error:
                continue
            computed += 1
            elements += sum(each.size > 0 for each in results)
    assert computed > 24
    assert elements > 24
