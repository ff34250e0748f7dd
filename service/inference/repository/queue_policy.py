"""Limits how long requests of each priority wait for a model, and how many."""

from collections.abc import Mapping

from msgspec import Struct


class QueuePolicy(Struct, frozen=True, kw_only=True):
    """The limits of waiting requests.

    Attributes:
        size: how many may wait; 0 for the service's limit.
        timeout_s: how long one may wait; 0 for no limit.
        delays: whether one that has waited for this long stays behind others of its priority, and
            is not refused.
        allows_shorter: whether a request that says how long it may take is delayed when it has
            waited for that long, if that is sooner. Otherwise it has to end by then.
    """

    size: int = 0
    timeout_s: float = 0.0
    delays: bool = False
    allows_shorter: bool = False


class Priorities(Struct, frozen=True, kw_only=True):
    """The priorities of requests, of which 1 is run first.

    Attributes:
        levels: how many there are; 0 for a model whose requests are equal.
        default: the priority of a request with none, or with one that is not there.
        policy: the policy of priorities that have none of their own.
        policies: the policies of the others.
    """

    levels: int = 0
    default: int = 0
    policy: QueuePolicy = QueuePolicy()
    policies: Mapping[int, QueuePolicy] = {}

    def of(self, asked: int) -> int:
        """Returns the priority of a request that asks for one."""
        return asked if 1 <= asked <= self.levels else self.default

    def policy_of(self, priority: int) -> QueuePolicy:
        """Returns the limits of requests of a priority."""
        return self.policies.get(priority, self.policy)
