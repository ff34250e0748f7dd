"""Each test has a handler of SIGBUS in front of those of libraries that this process has loaded."""

import pytest

from neurald.service.inference.mapping import guarded_copy


@pytest.fixture(autouse=True)
def handler() -> None:
    """Lets the next use of a mapping install a handler."""
    guarded_copy._handler.cache_clear()
