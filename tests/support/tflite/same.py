"""Compares results of two implementations of one interface."""

from typing import Any

import numpy as np


def assert_same(found: Any, expected: Any, where: str) -> None:
    """Asserts that two results are the same, down to the types of arrays.

    Args:
        found, expected: dictionaries, lists, arrays, or other values.
        where: begins the message.
    """
    if isinstance(expected, dict):
        assert isinstance(found, dict), where
        assert set(found) == set(expected), where
        for key in expected:
            assert_same(found[key], expected[key], f"{where}/{key}")
    elif isinstance(expected, list | tuple):
        assert isinstance(found, list | tuple), where
        assert len(found) == len(expected), where
        for position, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert_same(one, other, f"{where}/{position}")
    elif isinstance(expected, np.ndarray):
        assert isinstance(found, np.ndarray), where
        assert found.dtype == expected.dtype, where
        np.testing.assert_array_equal(found, expected, where)
    else:
        assert found == expected, where
