"""Runs bursts of several engines in turn, each in its own process while the others are stopped."""

import random
from collections.abc import Mapping, Sequence

from process import Worker
from report import Round

#: Limits on the number of timed turns of a burst.
_MIN_TURNS, _MAX_TURNS = 2, 2000
#: A turn has several runs if they are so short that reading clocks would count.
_TURN_MS = 0.05
#: Share of a burst that a process needs to warm its caches after it was stopped.
_WARM_UP_SHARE = 0.2
#: Minimum number of rounds, however long they take.
_MIN_ROUNDS = 3


def take_turns(
    workers: Mapping[str, Worker],
    *,
    rounds: int,
    burst_ms: float,
    cores: Sequence[int] = (),
    limit_s: float | None = None,
) -> list[Round]:
    """Runs bursts of all engines in turn; returns the runs by engine for each round.

    Args:
        workers: the processes by engine.
        rounds: the number of rounds.
        burst_ms: the duration of a burst; slow models run twice.
        cores: pins all engines to one of these in a round, to the next one in the next.
        limit_s: reduces the number of rounds if they would take longer, down to three.
    """
    bursts, round_s = {}, 0.0
    for name, worker in workers.items():
        # The first runs determine how many make a burst.
        once = max(1e-4, min(wall for wall, _ in worker.ask("burst", 1, 3)))
        runs = max(1, int(_TURN_MS / once))
        turns = int(min(_MAX_TURNS, max(_MIN_TURNS, burst_ms / (once * runs))))
        bursts[name] = (max(1, int(turns * runs * _WARM_UP_SHARE)), turns, runs)
        round_s += once * (turns * runs + bursts[name][0]) / 1e3
    if limit_s is not None and round_s > 0:
        rounds = min(rounds, max(_MIN_ROUNDS, int(limit_s / round_s)))
    chance = random.Random(0)  # noqa: S311
    order, results = list(workers), list[Round]()
    for number in range(rounds):
        chance.shuffle(order)
        found = {}
        for name in order:
            if cores:
                workers[name].move(cores[number % len(cores)])
            found[name] = workers[name].ask("burst", *bursts[name])
        results.append({name: found[name] for name in workers})
    return results
