from neurald.hal.admission.executions.overlap import Overlap


def test_a_device_that_runs_one_after_another_is_found_out() -> None:
    overlap = Overlap()
    assert not overlap.is_serial
    for number in range(40):
        beside = number % 4
        overlap.add(1.0 + 0.97 * beside, beside)
    assert overlap.is_serial


def test_executions_that_overlap_at_least_partly_do() -> None:
    overlap = Overlap()
    for number in range(400):
        beside = number % 4
        overlap.add(1.0 + 0.5 * beside, beside)
    assert not overlap.is_serial


def test_late_executions_that_wait_for_the_rest_of_another_one_find_it_out() -> None:
    """If they come at a steady rate, each may begin when the one before it is half done."""
    for is_late in (False, True):
        overlap = Overlap()
        overlap.add(1.0, 0)
        for _ in range(30):
            overlap.add(1.5, 1, left=0.5, is_late=is_late)
        for _ in range(4):
            overlap.add(1.0, 0)  # what run alone after late ones say no more
        assert overlap.is_serial is is_late


def test_late_executions_that_hardly_delay_each_other_overlap() -> None:
    overlap = Overlap()
    for _ in range(100):
        overlap.add(1.1, 1, left=0.5, is_late=True)
        overlap.add(1.05, 1, left=0.01, is_late=True)
    for _ in range(4):
        overlap.add(1.0, 0)
    assert not overlap.is_serial


def test_late_executions_beside_others_have_a_few_run_alone() -> None:
    """Otherwise nobody would know how long one takes alone, and how many are too many."""
    overlap = Overlap()
    for _ in range(40):
        overlap.add(None, 3)
    assert not overlap.is_serial
    overlap.add(None, 3, is_late=True)
    assert overlap.is_serial
    overlap.add(1.0, 0)
    assert overlap.is_serial, "a second one"
    overlap.add(1.0, 0)
    assert not overlap.is_serial
    overlap.add(1.3, 3, is_late=True)
    assert not overlap.is_serial, "not again at once"


def test_after_a_while_it_is_tried_again() -> None:
    overlap = Overlap()
    for _ in range(40):
        overlap.add(4.0, 3)
    for _ in range(100):
        overlap.add(1.0, 0)
    assert overlap.is_serial
    for _ in range(1000):
        overlap.add(1.0, 0)
    assert not overlap.is_serial
