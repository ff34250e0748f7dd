import pytest


@pytest.fixture(autouse=True)
def _compiled_here(compiles_here: None) -> None:
    """There are thousands of small models."""
