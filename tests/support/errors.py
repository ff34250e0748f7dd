"""Helpers of tests for refused calls."""

from collections.abc import Callable
from typing import Any

import pytest

import neurald as nd


def error_code(call: Callable[..., Any], *arguments: Any) -> nd.ResultCode:
    """Returns the code of the nd.Error that a call raises; fails if it raises none."""
    with pytest.raises(nd.Error) as caught:
        call(*arguments)
    return caught.value.code
