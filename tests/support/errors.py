"""What tests of refused calls share."""

from collections.abc import Callable
from typing import Any

import pytest

import neurald as nd


def error_code(call: Callable[..., Any], *arguments: Any) -> nd.ResultCode:
    """The code of the nd.Error that the call must raise."""
    with pytest.raises(nd.Error) as caught:
        call(*arguments)
    return caught.value.code
