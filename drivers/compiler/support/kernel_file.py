"""Loads kernel source text, such as LLVM IR or OpenCL C, from files that lie beside the modules.

Function bodies that are written by hand live in `.ll` and `.cl` files, where editors and reviewers
see them as code. A placeholder is `$NAME`, or `${NAME}` if letters follow it; `$$` is a dollar
sign. Names of placeholders consist of upper-case letters, digits and underscores.

A driver's version contains a digest of all files in its folders (see `neurald.hal.cache.sources`),
so a changed kernel file invalidates cached code as a changed module does.
"""

import os
import re
import string
from functools import cache
from importlib import import_module


class _Template(string.Template):
    flags = re.NOFLAG
    idpattern = "[A-Z][A-Z0-9_]*"


def kernel_text(module: str, file: str, **values: object) -> str:
    """Returns the text of a kernel file with its placeholders replaced.

    The file is read once per process, from a directory or a zip file.

    Args:
        module: name of a module in the same folder as the file: the caller's `__name__`.
        file: name of the file, such as "heap_top_k.ll".
        values: replacement of every placeholder, by name.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file contains an invalid placeholder, or its placeholders are not those in
            `values`.
    """
    template = _template(module, file)
    expected, given = set(template.get_identifiers()), set(values)
    if expected != given:
        raise ValueError(
            f"{file}: values were given for the placeholders {_listed(given)}, "
            f"but the file contains {_listed(expected)}"
        )
    try:
        return template.substitute(values)
    except ValueError as error:
        raise ValueError(f"{file}: {error}; write a dollar sign as $$") from None


def file_content(module: str, file: str) -> str:
    """Returns the content of a kernel file as it is, for callers with placeholders of their own.

    Args:
        module: see `kernel_text`.
        file: see `kernel_text`.

    Raises:
        FileNotFoundError: the file does not exist.
    """
    # Like `pkgutil.get_data`, which is slow to import.
    found = import_module(module)
    read = getattr(found.__loader__, "get_data", None)
    if read is None or found.__file__ is None:
        raise FileNotFoundError(f"{file}: the loader of {module} cannot read data files")
    content: bytes = read(os.path.join(os.path.dirname(found.__file__), file))  # noqa: PTH118, PTH120
    return content.decode()


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "(none)"


@cache
def _template(module: str, file: str) -> _Template:
    return _Template(file_content(module, file))
