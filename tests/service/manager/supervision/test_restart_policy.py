"""Pauses between the deaths of a driver and its next start, and quarantine."""

import pytest

from neurald.service.manager.supervision.restart_policy import RestartPolicy


def test_pauses_grow_and_end_in_quarantine() -> None:
    policy = RestartPolicy(chance=lambda: 0.5)
    assert [policy.died(now_s, 0.0) for now_s in range(5)] == [0.0, 0.1, 0.2, 0.4, None]
    assert policy.deaths == 5


def test_what_is_left_of_a_pause() -> None:
    policy = RestartPolicy(chance=lambda: 0.5)
    assert policy.pause_left_s(7.0) == 0.0
    policy.died(7.0, 0.0)
    assert policy.pause_left_s(7.0) == 0.0
    policy.died(8.0, 0.0)
    assert [policy.pause_left_s(now_s) for now_s in (8.0, 9.0)] == [pytest.approx(0.1), 0.0]


def test_rare_deaths_lead_to_long_pauses_and_never_to_quarantine() -> None:
    policy = RestartPolicy(chance=lambda: 0.5)
    pauses = [policy.died(20.0 * number, 1.0) for number in range(2000)]
    assert pauses[:4] == [0.0, 0.1, 0.2, 0.4]
    assert set(pauses[10:]) == {10.0}


def test_a_driver_that_has_served_for_long_begins_anew() -> None:
    policy = RestartPolicy(chance=lambda: 0.5)
    for now_s in range(4):
        policy.died(now_s, 0.0)
    assert policy.died(100.0, 90.0) == 0.0
    assert policy.deaths == 1


def test_pauses_vary() -> None:
    for chance, factor in ((0.0, 0.8), (1.0, 1.2)):
        policy = RestartPolicy(chance=lambda chance=chance: chance)  # type: ignore[misc]
        policy.died(0.0, 0.0)
        assert policy.died(1.0, 0.0) == 0.1 * factor


def test_an_operator_can_forgive() -> None:
    policy = RestartPolicy(chance=lambda: 0.5)
    for now_s in range(4):
        policy.died(now_s, 0.0)
    policy.forget()
    assert policy.died(5.0, 0.0) == 0.0
