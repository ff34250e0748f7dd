import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from neurald.service.benchmark.histogram import bins, svg_histogram, text_histogram

LATENCIES = [*np.random.default_rng(0).gamma(4, 1, 1000), 500.0]


def test_every_run_is_in_a_bin() -> None:
    assert sum(count for _, _, count in bins(LATENCIES)) == len(LATENCIES)
    assert bins(LATENCIES)[-1][1] == 500
    assert bins([2.0, 2.0]) == [(2.0, 2.0, 2)]


def test_few_slow_runs_leave_the_bins_to_the_others() -> None:
    usual = np.random.default_rng(0).normal(1.0, 0.1, 900)
    found = bins([*usual, *[70.0] * 60])
    assert found[-1][2] == 60
    assert sum(count > 0 for _, _, count in found[:-1]) > 6


@pytest.mark.parametrize("width", [20, 30, 40, 80, 200])
@pytest.mark.parametrize("plain", [False, True])
def test_lines_fit_a_terminal(width: int, plain: bool) -> None:
    for values in (LATENCIES, [1e-3, 2e-3, 9e-3], [80_000.0, 90_000.0] * 10_000):
        lines = text_histogram(values, width=width, plain=plain)
        assert max(map(len, lines)) <= min(width, 80)
        assert len(lines) == len(bins(values))
        if width > 20:
            assert any(("#" if plain else "█") in line for line in lines)


def test_latencies_have_a_unit() -> None:
    assert " us " in text_histogram([1e-3, 2e-3])[0]
    assert " ms " in text_histogram(LATENCIES)[0]


def test_the_drawing_is_sound_and_escaped() -> None:
    root = ElementTree.fromstring(svg_histogram(LATENCIES, 'a <b> & "c"'))
    names = [each.tag.rpartition("}")[2] for each in root.iter()]
    assert names.count("circle") == len(LATENCIES)
    assert names.count("rect") == len(bins(LATENCIES))
    assert root.attrib["aria-label"] == 'a <b> & "c"'
    assert ElementTree.fromstring(svg_histogram([1.0], "one")) is not None
