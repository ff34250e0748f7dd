"""The custom operators that a library of LiteRT's build registers for its interpreter_test.py."""

import numpy as np

from neurald.litert import CustomOperators

_calls = 0


def TF_TestRegisterer(operators: CustomOperators) -> None:  # noqa: N802
    """Registers the operators, and counts how often it is called."""
    global _calls
    _calls += 1
    operators.add("FakeOp", lambda inputs, options: ())
    operators.add("Double", lambda inputs, options: 2 * np.asarray(inputs[0]))


def get_num_test_registerer_calls() -> int:
    """Returns how often operators were registered since the last call."""
    global _calls
    count, _calls = _calls, 0
    return count
