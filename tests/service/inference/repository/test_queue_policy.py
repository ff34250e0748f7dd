"""The priorities of requests, and how long those of each may wait."""

from neurald.service.inference.repository.queue_policy import Priorities, QueuePolicy


def test_a_priority_that_is_not_there_is_the_default() -> None:
    priorities = Priorities(levels=3, default=2)
    assert [priorities.of(asked) for asked in (0, 1, 2, 3, 4, 2**64 - 1)] == [2, 1, 2, 3, 2, 2]
    assert Priorities().of(5) == 0


def test_a_priority_may_have_a_policy_of_its_own() -> None:
    common, own = QueuePolicy(size=1), QueuePolicy(size=2)
    priorities = Priorities(levels=2, default=1, policy=common, policies={2: own})
    assert priorities.policy_of(1) is common
    assert priorities.policy_of(2) is own
