import math

from neurald.drivers.cpu.native.programs.step_program import MAX_CHUNKS_OF_PART
from neurald.drivers.cpu.native.records.call_division import division, piece_items

COUNT = 100


def test_how_calls_are_divided() -> None:
    def divided(threads: int, cost_ns: float, work_items: int = COUNT) -> tuple[int, int]:
        found = division(work_items, cost_ns, threads)
        assert found.word == found.parts | found.chunks << 32
        return found.parts, found.chunks

    assert divided(4, 1e3) == (1, 1)
    assert divided(4, 1e4) == (4, 1)
    assert divided(1, 1e4) == (1, 1)
    assert divided(4, 2e6) == (4, 4)
    assert divided(4, 2e6, work_items=9) == (4, 2)
    assert divided(4, 1e9, work_items=3) == (3, 1)
    assert divided(4, 1e9, work_items=0) == (1, 1)
    # Long calls are divided into more chunks, so that executions can be stopped soon.
    assert divided(2, 4e7) == (2, 20)
    assert divided(2, 1e15, work_items=1 << 40) == (2, MAX_CHUNKS_OF_PART)


def test_a_piece_takes_a_target_time() -> None:
    # Whether or not there are as many work items now.
    assert piece_items(COUNT, 1e6) == 2 * COUNT
    assert piece_items(COUNT, 4e7) == math.ceil(COUNT / 20)
    assert piece_items(COUNT, 4e12) == 1
    assert piece_items(COUNT, 0.0) > COUNT
    assert piece_items(0, 4e9) == 1
