"""Attackers have a quarter of the cores to themselves where there are enough."""

from faults.cores import cores_of_attackers


def test_few_cores_are_shared() -> None:
    assert not cores_of_attackers({0, 1, 2})


def test_attackers_have_a_quarter() -> None:
    assert cores_of_attackers({4, 5, 6, 7}) == {7}
    assert cores_of_attackers(range(16)) == {12, 13, 14, 15}
