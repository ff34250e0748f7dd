"""A daemon serves the users that it shall serve, and no others."""

import os

from support.sweeps import sweep

from neurald.hal.admission.access.sharing import NOBODY_ELSE, Sharing
from neurald.hal.process.peer import Peer

_OWN = os.geteuid()
_OTHER = 4_000_000_000


def peer(user: int, *groups: int) -> Peer:
    return Peer(process=1, user=user, groups=frozenset(groups))


@sweep(
    ("sharing", "user", "groups", "is_served"),
    [
        (NOBODY_ELSE, _OWN, (), True),
        (NOBODY_ELSE, 0, (), True),
        (NOBODY_ELSE, _OTHER, (0, _OWN), False),
        (Sharing(users=frozenset({_OTHER})), _OTHER, (), True),
        (Sharing(users=frozenset({_OTHER})), _OTHER - 1, (_OTHER,), False),
        (Sharing(groups=frozenset({7})), _OTHER, (5, 7), True),
        (Sharing(groups=frozenset({7})), _OTHER, (5, 6), False),
        (Sharing(groups=frozenset({7})), 7, (), _OWN == 7),
        (Sharing(users=frozenset({1}), groups=frozenset({7})), _OTHER, (), False),
    ],
    ids=range(9),
)
def test_who_is_served(sharing: Sharing, user: int, groups: tuple[int, ...], is_served: bool) -> None:
    assert (sharing.refusal(peer(user, *groups)) == "") == is_served


def test_refusals_say_why() -> None:
    assert NOBODY_ELSE.refusal(peer(_OTHER)) == (
        f"permission denied: user {_OTHER} is not the user of this driver, whom alone it serves"
    )
    refusal = Sharing(users=frozenset({1})).refusal(peer(_OTHER))
    assert refusal == (
        f"permission denied: user {_OTHER} is not among the users and groups that the operator of this driver "
        "admits"
    )
