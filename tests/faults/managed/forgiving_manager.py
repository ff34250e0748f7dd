"""Service manager that takes every death of a driver that has served for its first.

    python -m faults.managed.forgiving_manager serve

There are no pauses and no quarantine, however often a driver is killed. Otherwise it is `neurald`.
"""

from neurald.service.cli import main
from neurald.service.manager.supervision import restart_policy

if __name__ == "__main__":
    restart_policy._HEALTHY_S = 1e-6  # type: ignore[misc]
    main()
