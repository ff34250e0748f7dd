"""Docstrings say what a thing is or does; none begins with a question word."""

import re
from pathlib import Path

import pytest
from support.mirror import SOURCES

pytestmark = pytest.mark.quick

ROOT = Path(__file__).parents[2]
_QUESTION = re.compile(r'"""(?:Whether|What|How|Which|Where|Why)\b')


@pytest.mark.parametrize("folder", [*SOURCES, "benchmarks", "examples", "scripts", "tests"])
def test_docstrings_do_not_begin_with_a_question_word(folder: str) -> None:
    paths = sorted((ROOT / folder).rglob("*.py"))
    assert paths
    assert not [str(path) for path in paths if _QUESTION.search(path.read_text(encoding="utf-8"))]


def test_question_words_are_found() -> None:
    assert _QUESTION.search('    """' + "How many there are." + '"""')
    assert not _QUESTION.search('"""However it ends."""')
