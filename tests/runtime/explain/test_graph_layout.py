import random

from support.sweeps import sweep

from neurald.runtime.explain.graph_layout import NodePosition, layered_positions


def test_a_chain_is_straight() -> None:
    assert layered_positions([[], [0], [1]]) == [NodePosition(layer=n, column=0.0) for n in range(3)]


def test_a_diamond_is_symmetric() -> None:
    spots = layered_positions([[], [0], [0], [1, 2]])
    assert [spot.layer for spot in spots] == [0, 1, 1, 2]
    assert [spot.column for spot in spots] == [0.5, 0.0, 1.0, 0.5]


def test_layers_are_longest_paths() -> None:
    assert [spot.layer for spot in layered_positions([[], [0], [1], [0, 2], []])] == [0, 1, 2, 3, 0]


def test_nothing() -> None:
    assert layered_positions([]) == []


@sweep("seed", range(10))
def test_random_graphs(seed: int) -> None:
    generator = random.Random(seed)
    after = [generator.sample(range(n), k=min(n, generator.randint(0, 3))) for n in range(200)]
    spots = layered_positions(after)
    assert min(spot.column for spot in spots) == 0
    for node, sources in enumerate(after):
        assert all(spots[source].layer < spots[node].layer for source in sources)
    by_layer: dict[int, list[float]] = {}
    for spot in spots:
        by_layer.setdefault(spot.layer, []).append(spot.column)
    for columns in by_layer.values():
        columns.sort()
        assert all(b - a > 0.999 for a, b in zip(columns, columns[1:], strict=False))  # noqa: RUF007
