"""Cores of a machine, shared out between those who attack a daemon and those who are measured.

What an attacker computes by itself, it takes from everybody on the machine, and a daemon can do nothing about that. So where
there are enough cores, attackers have some to themselves, and the daemon and its honest client have the others.
"""

from collections.abc import Collection

#: On fewer cores nobody has any to itself.
_ENOUGH = 4
#: Attackers have one in so many.
_SHARE = 4


def cores_of_attackers(cores: Collection[int]) -> frozenset[int]:
    """Those of the cores that attackers have to themselves; none where they have to share them."""
    if len(cores) < _ENOUGH:
        return frozenset()
    return frozenset(sorted(cores)[-(len(cores) // _SHARE) :])
