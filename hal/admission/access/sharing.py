"""The users that a daemon serves besides its own and root."""

import os
from dataclasses import dataclass

from neurald.hal.process.peer import Peer, described_user


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """The users and groups whom the operator admits to a UNIX socket.

    The mode of the socket's file decides who can connect. Of those, the daemon serves the listed
    users and the members of the listed groups, as the kernel knows them (SO_PEERCRED).

    Attributes:
        users: numbers of users.
        groups: numbers of groups.
        socket_mode: permissions of the socket's file.
    """

    users: frozenset[int] = frozenset()
    groups: frozenset[int] = frozenset()
    socket_mode: int = 0o600

    def refusal(self, peer: Peer) -> str:
        """Returns why a process is not served; empty if it is."""
        if peer.user in (os.geteuid(), 0) or peer.user in self.users or peer.groups & self.groups:
            return ""
        if self.users or self.groups:
            return (
                f"permission denied: {described_user(peer.user)} is not among the users and groups that the "
                "operator of this driver admits"
            )
        return f"permission denied: {described_user(peer.user)} is not the user of this driver, whom alone it serves"


#: Serves no other users.
NOBODY_ELSE = Sharing()
