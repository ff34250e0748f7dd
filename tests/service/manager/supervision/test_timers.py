"""Timers that have names."""

import asyncio
from functools import partial

from neurald.service.manager.supervision.timers import NamedTimers


def test_a_timer_acts_once_and_is_gone() -> None:
    async def test() -> list[str]:
        timers, deeds = NamedTimers(asyncio.get_running_loop()), list[str]()
        done = asyncio.Event()

        def act() -> None:
            deeds.append("acted")
            timers.arm("a", 0.0, done.set)  # it may arm itself again

        timers.arm("a", 0.0, act)
        assert "a" in timers
        await done.wait()
        assert "a" not in timers
        return deeds

    assert asyncio.run(test()) == ["acted"]


def test_one_takes_the_place_of_another_of_its_name() -> None:
    async def test() -> list[str]:
        timers, deeds = NamedTimers(asyncio.get_running_loop()), list[str]()
        for name in ("a", "b", "c"):
            timers.arm(name, 0.0, partial(deeds.append, name))
        timers.arm("a", 0.0, lambda: deeds.append("other"))
        timers.cancel("b")
        timers.cancel("unknown")
        await asyncio.sleep(0.05)
        return deeds

    assert asyncio.run(test()) == ["c", "other"]


def test_all_are_cancelled() -> None:
    async def test() -> list[str]:
        timers, deeds = NamedTimers(asyncio.get_running_loop()), list[str]()
        for name in ("a", "b"):
            timers.arm(name, 0.0, lambda: deeds.append("acted"))
        timers.cancel_all()
        await asyncio.sleep(0.05)
        return deeds

    assert asyncio.run(test()) == []
