"""Options take the names of members of enumerations."""

from enum import Enum

import pytest
import typer
from support.sweeps import sweep

import neurald as nd
from neurald.service.console.members import member_of

pytestmark = pytest.mark.quick

KINDS = (nd.Startup, nd.Preference, nd.Priority)


@sweep("kind", KINDS, ids=lambda kind: kind.__name__)
def test_names_are_those_of_the_library(kind: type[Enum]) -> None:
    for each in kind:
        assert member_of(kind, each.name, "--option") is each
        assert member_of(kind, each.name.lower(), "--option") is each


def test_other_names_are_refused() -> None:
    with pytest.raises(typer.BadParameter, match="--startup is 'soon'; instant or optimized is expected"):
        member_of(nd.Startup, "soon", "--startup")
    several = "low, medium or high is expected"
    with pytest.raises(typer.BadParameter, match=several):
        member_of(nd.Priority, "first", "--priority")
