"""Tables of costs: averages, sizes between those that were measured, rooflines, links."""

import math
import threading

import pytest

from neurald.hal.errors import BadData
from neurald.runtime.costs.table import (
    Average,
    CostBook,
    CostSource,
    CostTable,
    DeviceLink,
    band_of,
    pair_link,
)
from neurald.runtime.costs.work import OperationKind

ADD = OperationKind(operation="ADD", operand="TENSOR_FLOAT32")
CONV = OperationKind(operation="CONV_2D", operand="TENSOR_FLOAT32")
OTHER = OperationKind(operation="SUB", operand="TENSOR_FLOAT32")


def test_the_first_measurements_are_averaged_and_later_ones_exponentially() -> None:
    table = CostTable()
    for seconds in (1.0, 3.0):
        table = table.observed(ADD, 1.0, seconds)
    assert table.seconds(ADD, 1.0) == (2.0, CostSource.MEASURED)
    for _ in range(50):
        table = table.observed(ADD, 1.0, 4.0)
    found = table.seconds(ADD, 1.0)
    assert found is not None
    assert found[0] == pytest.approx(4.0, rel=1e-3)
    table = table.observed(ADD, 1.0, 9.0)
    found = table.seconds(ADD, 1.0)
    assert found is not None
    assert found[0] == pytest.approx(5.0, rel=1e-3)


def test_sizes_between_and_beyond_are_scaled() -> None:
    table = CostTable().observed(ADD, 2.0**10, 1e-3).observed(ADD, 2.0**20, 1e-1)
    assert table.seconds(ADD, 2.0**10) == (1e-3, CostSource.MEASURED)
    below, above, between = (table.seconds(ADD, size) for size in (2.0**8, 2.0**22, 2.0**15))
    for found, expected in ((below, 1e-3 / 4), (above, 0.4), (between, math.sqrt(1e-3 * 1e-1))):
        assert found is not None
        assert found[1] is CostSource.SCALED
        assert found[0] == pytest.approx(expected)
    assert table.seconds(OTHER, 4.0) is None
    assert table.seconds(ADD, 2.0**27) is None


def test_the_roofline_is_that_of_the_same_sort_of_operation() -> None:
    size = 2.0**17
    table = CostTable().observed(ADD, size, 1.0).observed(CONV, size, 8.0).observed(OTHER, 64.0, 1.0)
    assert table.unit_seconds("TENSOR_FLOAT32", is_product=False) == 1 / size
    assert table.unit_seconds("TENSOR_FLOAT32", is_product=True) == 8 / size
    assert table.unit_seconds("TENSOR_QUANT8_ASYMM", is_product=True) == 8 / size
    assert CostTable().unit_seconds("TENSOR_FLOAT32", is_product=True) is None


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan, math.inf])
def test_impossible_times_are_dropped(seconds: float) -> None:
    assert CostTable().observed(ADD, 1.0, seconds) == CostTable()
    assert CostTable().launched(seconds) == CostTable()


def test_launches_are_averaged() -> None:
    table = CostTable().launched(1.0).launched(2.0)
    assert table.launch == Average(seconds=1.5, measurements=2)


def test_a_table_does_not_grow_without_limit() -> None:
    table = CostTable(
        rates={
            OperationKind(operation=str(n), operand=""): {0: Average(seconds=1.0, measurements=1)}
            for n in range(1024)
        }
    )
    assert table.observed(ADD, 1.0, 1.0) is table


def test_the_link_of_two_devices_leads_through_the_host() -> None:
    slow = DeviceLink(latency_s=1.0, input_bytes_per_s=10.0, output_bytes_per_s=20.0, shares_memory=False)
    link = pair_link("a", "b", slow, slow)
    assert (link.latency_s, link.shares_memory) == (2.0, False)
    assert link.bytes_per_s == pytest.approx(1 / (1 / 20 + 1 / 10))
    assert pair_link("a", "b", DeviceLink(), DeviceLink()).bytes_per_s == math.inf
    assert pair_link("a", "b", DeviceLink(), DeviceLink()).shares_memory


@pytest.mark.parametrize(
    "table",
    [
        CostTable(launch=Average(seconds=0.0)),
        CostTable(link=DeviceLink(latency_s=-1.0)),
        CostTable(link=DeviceLink(input_bytes_per_s=math.nan)),
        CostTable(rates={ADD: {0: Average(seconds=-1.0, measurements=1)}}),
        CostTable(rates={ADD: {0: Average(seconds=1.0, measurements=0)}}),
        CostTable(rates={ADD: {-1: Average(seconds=1.0, measurements=1)}}),
        CostTable(rates={ADD: {257: Average(seconds=1.0, measurements=1)}}),
        CostTable(launch=Average(seconds=1.0, measurements=-1)),
    ],
)
def test_impossible_figures_are_found(table: CostTable) -> None:
    with pytest.raises(BadData):
        table.check()


def test_bands() -> None:
    assert band_of(0.0) == band_of(1.0) == 0
    assert band_of(2.0**10) == 20
    assert band_of(1e300) == 256


def test_threads_lose_no_measurement() -> None:
    book = CostBook(CostTable())

    def scale() -> None:
        for _ in range(200):
            book.scale({(ADD, 1.0): 1.0}, 1.0)

    threads = [threading.Thread(target=scale) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert book.table.rates[ADD][0].measurements == 800
    assert book.is_changed
