"""Processes that end with the one that forked them."""

import os
import subprocess
import sys
import threading

from support.process.descriptors import many_descriptors

from neurald.hal.process.parent import stop_with


def test_a_child_whose_parent_has_ended_before_it_began_ends() -> None:
    # The number is not that of its parent, as when the parent was killed right after the fork.
    program = (
        "import sys; from neurald.hal.process.parent import die_with; die_with(int(sys.argv[1])); print('on')"
    )

    def output(parent: int) -> str:
        arguments = [sys.executable, "-c", program, str(parent)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            arguments, env=environment, capture_output=True, text=True, timeout=60, check=True
        )
        return done.stdout

    assert output(os.getpid()) == "on\n"
    assert output(os.getppid()) == ""


def test_a_process_with_many_descriptors_learns_of_the_end_of_another() -> None:
    stopped = threading.Event()
    with many_descriptors(), subprocess.Popen(["sleep", "60"]) as process:
        stop_with(process.pid, stopped.set)
        assert not stopped.is_set()
        process.kill()
        assert stopped.wait(30)
