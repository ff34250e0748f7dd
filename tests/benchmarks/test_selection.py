"""The names on the command line of a benchmark choose what it measures."""

from collections.abc import Callable
from typing import Any

import pytest

_NAMES = ("resnet_int8", "vww", "resnet")


@pytest.fixture
def selected(import_benchmark: Callable[..., Any]) -> Callable[[str], Any]:
    """Returns what texts choose of some names."""
    module = import_benchmark("selection")
    return lambda texts: module.selected(_NAMES, str, texts.split(","), "--only")


@pytest.mark.parametrize(
    ("texts", "names"),
    [
        ("", _NAMES),
        ("res", ("resnet_int8", "resnet")),
        ("resnet", ("resnet",)),
        ("resnet,int8", ("resnet_int8", "resnet")),
        ("w,resnet,", ("vww", "resnet")),
    ],
)
def test_whole_names_choose_one_and_parts_of_names_all_that_have_them(
    selected: Callable[[str], Any], texts: str, names: tuple[str, ...]
) -> None:
    assert tuple(selected(texts)) == names


def test_a_text_that_is_part_of_no_name_is_an_error(selected: Callable[[str], Any]) -> None:
    message = r"--only renset: no name contains 'renset'; the names are resnet_int8, vww, resnet"
    with pytest.raises(SystemExit, match=message):
        selected("vww,renset")
