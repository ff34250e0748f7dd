"""Short runs of the attacks of `tests/faults/run.py --attacks` with reduced intensity.

The lower tiers play every eighth attack. The latency of an honest client is only checked in full
runs.
"""

from collections.abc import Iterator

import pytest
from faults.attacks.attack import Attack
from faults.attacks.attacked import daemon_for, play
from faults.attacks.catalogue import ATTACKS
from faults.attacks.kinds.blocking_fences import BlockingFences
from faults.daemon_process import DaemonProcess

_SECONDS = 0.3
_INTENSITY = 0.1


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    """Runs a daemon that is shared by the attacks."""
    with daemon_for(BlockingFences, tmp_path_factory.mktemp("d")) as daemon:
        yield daemon


@pytest.mark.sampled(8)
@pytest.mark.timed
@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
def test_an_attack(
    attack: type[Attack], request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> None:
    is_ordinary = (attack.options, attack.listen, attack.descriptors) == (
        Attack.options,
        Attack.listen,
        Attack.descriptors,
    )
    if is_ordinary:
        played = play(attack, request.getfixturevalue("shared"), _SECONDS, _INTENSITY, compares=False)
    else:
        with daemon_for(attack, tmp_path_factory.mktemp("d")) as daemon:
            played = play(attack, daemon, _SECONDS, _INTENSITY, compares=False)
    assert not played.wrong, played
    assert played.outcomes, "it attacked"
