"""Divides the cores of a machine between attackers and measured processes.

The processor time of an attacker's own computations is lost to all others, and a daemon cannot
prevent that. If there are enough cores, attackers therefore get separate ones, and the daemon and
its honest client get the others.
"""

from collections.abc import Collection

#: Minimum number of cores for a division.
_ENOUGH = 4
#: Attackers get one of this many cores.
_SHARE = 4


def cores_of_attackers(cores: Collection[int]) -> frozenset[int]:
    """Returns the cores reserved for attackers; none if they must share."""
    if len(cores) < _ENOUGH:
        return frozenset()
    return frozenset(sorted(cores)[-(len(cores) // _SHARE) :])
