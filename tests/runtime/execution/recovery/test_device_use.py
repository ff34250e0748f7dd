"""Runs that had a device for themselves."""

import threading

from neurald.runtime.execution.recovery.device_use import DeviceUse, use_of


def test_runs_beside_others() -> None:
    use = DeviceUse()
    assert use.end(use.begin())
    first, second = use.begin(), use.begin()
    assert not use.end(first)
    third = use.begin()
    assert not use.end(second)
    assert not use.end(third)
    assert use.end(use.begin())


def test_a_short_run_inside_a_long_one_counts_for_both() -> None:
    use = DeviceUse()
    long = use.begin()
    assert not use.end(use.begin())
    assert not use.end(long)


def test_steps_of_a_device_share_its_use() -> None:
    assert use_of("one") is use_of("one")
    assert use_of("one") is not use_of("other")


def test_threads_leave_nothing_behind() -> None:
    use = DeviceUse()

    def work() -> None:
        for _ in range(2000):
            use.end(use.begin())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert use.end(use.begin())


def test_a_child_has_no_runs_of_other_threads() -> None:
    use = DeviceUse()
    own = use.begin()
    use.begin()  # in another thread, which never ends in the child
    use.forked()
    assert not use.end(own)
    assert use.end(use.begin())
