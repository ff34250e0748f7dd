"""Templates of OpenCL C, and the placeholders in them."""

import re
import sys
from pathlib import Path

import pytest

from neurald.drivers import opencl
from neurald.drivers.opencl.codegen.kernel_source import NAME, WAIT, WAIT_ARGUMENTS, WAIT_PARAMETERS
from neurald.drivers.opencl.codegen.template import (
    FUNCTION,
    SIZE_ARGUMENTS,
    SIZE_PARAMETERS,
    fill,
    resolved,
    templates,
    with_numbers,
)

pytestmark = pytest.mark.quick

_FOLDER = Path(opencl.__file__).parent
_FILES = sorted(path for path in _FOLDER.rglob("*.cl") if path.name != "functions.cl")

_PARAMETERS = "const int group, __global float *restrict a0"
_TEXT = f"""\
static int {NAME}_at(const int m{SIZE_PARAMETERS}) {{ return m * $pitch; }}
{FUNCTION} {{
  a0[{NAME}_at(group{SIZE_ARGUMENTS})] = $rows;
}}
"""


def test_templates_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "beside_a_template.py").write_text("")
    (tmp_path / "some.cl").write_text(
        "//: About the file.\n\n//: [first]\n//: What it does.\n  a;\n//: A comment.\n  // generated\n\n\n//: [second] b\nb;\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "beside_a_template", raising=False)
    assert templates("beside_a_template", "some.cl") == {"first": "  a;\n  // generated\n", "second": "b;\n"}


@pytest.mark.parametrize("path", _FILES, ids=lambda path: str(path.name))
def test_files_of_the_driver(path: Path) -> None:
    package = ".".join((opencl.__name__, *path.relative_to(_FOLDER).parent.parts))
    found = templates(package, path.name)
    assert found
    for text in found.values():
        assert "//:" not in text
        assert text == text.rstrip() + "\n"
        assert not re.search(r"\$(?!\w|\{\w+\})", text)


def test_placeholders_in_a_line() -> None:
    assert fill("${T}4 $NAME = ${KERNEL}_of($T, k$SIZE_ARGUMENTS) + $rows;", T="int", NAME="x\n") == (
        f"int4 x = {NAME}_of(int, k$SIZE_ARGUMENTS) + $rows;"
    )


def test_placeholders_for_whole_lines() -> None:
    text = "a;\n$MORE\nb;\n"
    assert fill(text, MORE="") == "a;\nb;\n"
    assert fill(text, MORE="  c;\n  d;\n") == "a;\n  c;\n  d;\nb;\n"
    assert fill(text, MORE="  c;") == "a;\n  c;\nb;\n"
    assert fill("  $MORE\n", MORE="") == "  \n"


def test_placeholders_in_replacements() -> None:
    assert fill("$OUTER", OUTER="$INNER + $INNER", INNER="$COUNT", COUNT=3) == "3 + 3"


def test_a_missing_replacement() -> None:
    with pytest.raises(KeyError, match="COUNT"):
        fill("$COUNT")


def test_sizes_as_numbers() -> None:
    assert resolved(_TEXT, _PARAMETERS, {"rows": 5, "pitch": 8, "other": 1}, is_shared=False) == (
        f"static int {NAME}_at(const int m) {{ return m * 8; }}\n"
        f"static void {NAME}({_PARAMETERS}) {{\n  a0[{NAME}_at(group)] = 5;\n}}\n"
    )


def test_sizes_as_parameters() -> None:
    texts = [
        resolved(_TEXT, _PARAMETERS, {"rows": rows, "pitch": 8, "other": 1}, is_shared=True)
        for rows in (5, 6)
    ]
    shared, own = texts[0].split("#endif\n")
    assert texts[1].startswith(shared)
    assert "const int z_rows, const int z_pitch) {" in shared
    assert "return m * z_pitch;" in shared
    assert "_at(group, z_rows, z_pitch)] = z_rows;" in shared
    (name,) = re.findall(r"#define (\w+)_is_there", shared)
    assert own == f"static void {NAME}({_PARAMETERS}) {{\n  {name}(group, a0, 5, 8);\n}}\n"


def test_some_sizes_as_numbers_that_the_kernel_takes() -> None:
    """Kernels that differ only in these have the same text."""
    codes = [
        with_numbers(_TEXT, _PARAMETERS, {"rows": rows, "pitch": 8, "other": 1}, ("rows", "other"))
        for rows in (5, 6)
    ]
    assert [code.numbers for code in codes] == [(5,), (6,)]
    (text,) = {code.text for code in codes}
    assert text == (
        f"static int {NAME}_at(const int m, const int z_rows) {{ return m * 8; }}\n"
        f"static void {NAME}({_PARAMETERS}, const int z_rows) {{\n"
        f"  a0[{NAME}_at(group, z_rows)] = z_rows;\n}}\n"
    )
    waiting = with_numbers(f"{FUNCTION} {{\n  {WAIT}\n  $rows;\n}}\n", _PARAMETERS, {"rows": 5}, ("rows",))
    assert f"{NAME}({_PARAMETERS}, const int z_rows {WAIT_PARAMETERS}) {{" in waiting.text


def test_kernels_take_a_limited_number_of_numbers() -> None:
    sizes = {f"c{number}": number for number in range(1000)}
    text = f"{FUNCTION} {{ {' + '.join(f'${name}' for name in sizes)}; }}\n"
    code = with_numbers(text, _PARAMETERS, sizes, sizes)
    assert code.numbers == tuple(range(64))
    assert "z_c63 + 64 +" in code.text


@pytest.mark.parametrize("is_shared", [False, True])
def test_functions_that_wait(is_shared: bool) -> None:
    text = resolved(f"{FUNCTION} {{\n  {WAIT}\n}}\n", _PARAMETERS, {}, is_shared=is_shared)
    assert f"{NAME}({_PARAMETERS} {WAIT_PARAMETERS}) {{" in text
    assert (f"(group, a0 {WAIT_ARGUMENTS});" in text) is is_shared
