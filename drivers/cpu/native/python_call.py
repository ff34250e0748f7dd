"""Calls of native code as functions of Python, with neither Python frames nor ctypes in between.

CPython's C API makes function objects of native functions. `python_call.ll` has two: one without
arguments, which runs a step on memory that it is bound to, and one whose arguments are the input
arrays and that returns new output arrays. A call of the first takes about as long as one of
`len()`.

The functions belong to the step program, which is compiled without knowledge of the interpreter.
They find CPython's and NumPy's functions in a table, and read arrays as extension modules do: the
layouts of `PyObject` and `PyArrayObject` are parts of binary interfaces. `python_table` checks them.
With another implementation, or without a GIL, calls are made by ctypes instead.

A function keeps the GIL if its step is so short that releasing it would cost more than it gains.
No other Python thread runs in the meantime, so that nothing else has to be locked, and nothing can
cancel the call. Functions that release the GIL use memory that the caller has for itself.

Layouts (offsets in 64-bit words):

    table     see `_TABLE`
    call      see `_CALL`; an array, which is the function's `__self__`
    range     0 target, 1 source, 2 bytes
    port      see `_PORT`: an array that is an input or output
"""

import ctypes
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from typing import Any, Final, Protocol, TypeAlias

import numpy as np

from neurald.drivers.compiler.support.kernel_file import kernel_text
from neurald.drivers.cpu.target.routine import ALIGNMENT

Words: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
#: Target, source and size in bytes of a copy.
Range: TypeAlias = tuple[int, int, int]
Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
#: Runs a step on arrays; see `StepCall.on_arrays`.
ArrayFunction: TypeAlias = Callable[..., list[Array] | None]

#: The functions that Python calls.
_CALL_STEP, _CALL_ARRAYS = PYTHON_FUNCTIONS = ("neurald_call_step", "neurald_call_arrays")

_WORD_BYTES: Final = 8
_RANGE_WORDS: Final = 3

_TABLE: Final = (
    "NONE",
    "FALSE",
    "TRUE",
    "INCREASE",
    "DECREASE",
    "SAVE_THREAD",
    "RESTORE_THREAD",
    "NEW_LIST",
    "SET_ITEM",
    "ARRAY_TYPE",
    "NEW_ARRAY",
    "SET_BASE",
    "BYTE_DTYPE",
)
#: Step, its result if it finishes, result of the last run, table, whether the GIL is released;
#: ranges to copy before and after the step, and their numbers; ports and their numbers.
_CALL: Final = (
    "STEP",
    "FINISHED",
    "RESULT",
    "TABLE",
    "RELEASES",
    "COPIED_IN",
    "COPIED_IN_COUNT",
    "COPIED_OUT",
    "COPIED_OUT_COUNT",
    "INPUTS",
    "INPUT_COUNT",
    "OUTPUTS",
    "OUTPUT_COUNT",
)
_RESULT: Final = _CALL.index("RESULT")
#: Type of the elements, rank, address of the shape, size in bytes; address in the arena (0 if the
#: step does not use it), address that the arguments have now, addresses of these arguments and
#: their number; where to copy an output to (null if it was written in place).
_PORT: Final = (
    "PORT_DTYPE",
    "PORT_RANK",
    "PORT_SHAPE",
    "PORT_SIZE",
    "PORT_OWN",
    "PORT_CURRENT",
    "PORT_CELLS",
    "PORT_CELL_COUNT",
    "PORT_TARGET",
)

#: Offsets in `PyObject` and `PyArrayObject`, in bytes.
_OBJECT_TYPE: Final = 8
_ARRAY_DATA: Final = 16
_ARRAY_RANK: Final = 24
_ARRAY_SHAPE: Final = 32
_ARRAY_DTYPE: Final = 56
_ARRAY_FLAGS: Final = 64
#: Flags of an array: contiguous and aligned, as its input must be; and writable, too.
_USABLE: Final = 0x101
_WRITABLE: Final = 0x501
#: Major versions of NumPy's binary interface, and the indices of its functions and types, which are
#: the same in both.
_ARRAY_VERSIONS: Final = (1, 2)
_GET_VERSION, _GET_ARRAY_TYPE, _GET_NEW_ARRAY, _GET_SET_BASE = 0, 2, 94, 282

#: Size from which the memory of an output is aligned, so that it is written in place. Aligning
#: takes a second array, which costs as much as copying this many bytes.
_LARGE_BYTES: Final = 4096

_NO_ARGUMENTS: Final = 0x4
_FAST_ARGUMENTS: Final = 0x80


def python_call_text() -> str:
    """Returns the IR of the functions, which call `neurald_run` of the step program."""
    words = {
        name: _WORD_BYTES * position
        for names in (_TABLE, _CALL, _PORT)
        for position, name in enumerate(names)
    }
    return kernel_text(
        __name__,
        "python_call.ll",
        **words,
        RANGE_BYTES=_WORD_BYTES * _RANGE_WORDS,
        PORT_BYTES=_WORD_BYTES * len(_PORT),
        OBJECT_TYPE=_OBJECT_TYPE,
        ARRAY_DATA=_ARRAY_DATA,
        ARRAY_RANK=_ARRAY_RANK,
        ARRAY_SHAPE=_ARRAY_SHAPE,
        ARRAY_DTYPE=_ARRAY_DTYPE,
        ARRAY_FLAGS=_ARRAY_FLAGS,
        USABLE=_USABLE,
        WRITABLE=_WRITABLE,
        ALIGNMENT_MASK=ALIGNMENT - 1,
        LARGE=_LARGE_BYTES,
    )


class _Method(ctypes.Structure):
    """CPython's `PyMethodDef`."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


@cache
def python_table() -> int:
    """Returns the address of the table of functions of CPython and NumPy.

    Returns:
        0 if the interpreter is another one, has no GIL, or has other layouts.
    """
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return 0
    if ctypes.sizeof(ctypes.c_void_p) != _WORD_BYTES or not _has_layouts():
        return 0
    arrays = _array_functions()
    if arrays is None:
        return 0
    functions = [
        ctypes.cast(getattr(_python(), name), ctypes.c_void_p).value or 0
        for name in (
            "Py_IncRef",
            "Py_DecRef",
            "PyEval_SaveThread",
            "PyEval_RestoreThread",
            "PyList_New",
            "PyList_SetItem",
        )
    ]
    new_array, set_base = arrays
    table = np.array(
        [
            id(None),
            id(False),
            id(True),
            *functions,
            id(np.ndarray),
            new_array,
            set_base,
            id(np.dtype(np.uint8)),
        ],
        np.int64,
    )
    _kept.append(table)
    address: int = table.ctypes.data
    return address


#: Objects that native code uses until the process ends.
_kept: list[object] = []


def _has_layouts() -> bool:
    """Checks the offsets of `PyArrayObject` with arrays of different properties."""
    for shape, dtype in (((3, 5, 7), np.float32), ((), np.int8), ((2,), np.bool_)):
        array = np.zeros(shape, dtype)
        start = id(array)
        rank = ctypes.c_int32.from_address(start + _ARRAY_RANK).value
        flags = ctypes.c_int32.from_address(start + _ARRAY_FLAGS).value
        if (
            _word(start + _OBJECT_TYPE) != id(np.ndarray)
            or _word(start + _ARRAY_DATA) != array.ctypes.data
            or _word(start + _ARRAY_DTYPE) != id(array.dtype)
            or rank != len(shape)
            or flags & _WRITABLE != _WRITABLE
            or any(
                _word(_word(start + _ARRAY_SHAPE) + _WORD_BYTES * axis) != length
                for axis, length in enumerate(shape)
            )
        ):
            return False
    transposed = np.zeros((2, 3), np.float32).T
    return not ctypes.c_int32.from_address(id(transposed) + _ARRAY_FLAGS).value & 1


def _array_functions() -> tuple[int, int] | None:
    """Returns the addresses of NumPy's functions that create an array and set its base."""
    try:
        umath = import_module("numpy._core._multiarray_umath")
    except ImportError:
        umath = import_module("numpy.core._multiarray_umath")
    get_pointer = _python().PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    table: int = get_pointer(umath._ARRAY_API, None)

    def entry(index: int) -> int:
        return _word(table + _WORD_BYTES * index)

    version = ctypes.PYFUNCTYPE(ctypes.c_uint)(entry(_GET_VERSION))() >> 24
    if version not in _ARRAY_VERSIONS or entry(_GET_ARRAY_TYPE) != id(np.ndarray):
        return None
    return entry(_GET_NEW_ARRAY), entry(_GET_SET_BASE)


@cache
def _python() -> Any:
    """Returns the interpreter's library; `ctypes.pythonapi` is shared with other modules."""
    return ctypes.PyDLL(None)


def _word(address: int) -> int:
    return ctypes.c_int64.from_address(address).value


@cache
def _method(function: int, flags: int) -> _Method:
    """Returns the description of a native function, which its function objects refer to."""
    return _Method(b"neurald", function, flags, None)


class NativeFunctions(Protocol):
    """The functions of the step program; `thread_pool.StepProgram` has them."""

    run: Any
    """Runs the step at an address, by ctypes."""
    addresses: Mapping[str, int]
    """The addresses of all functions, by name."""


class StepCall:
    """A step in memory that a function of Python runs.

    Args:
        program: the native functions.
        step: address of the step.
        finished: its result if it finishes.
        copied_in, copied_out: copies to make before and after it.
        releases_gil: whether other threads of Python run in the meantime.
        keep: lives as long as a function of this object.

    Attributes:
        run: runs the step, and returns whether it finished.
    """

    def __init__(
        self,
        program: NativeFunctions,
        step: int,
        finished: int,
        *,
        copied_in: Sequence[Range] = (),
        copied_out: Sequence[Range] = (),
        releases_gil: bool,
        keep: object,
    ) -> None:
        self._program = program
        before, after = _words(copied_in), _words(copied_out)
        self._call = np.zeros(len(_CALL), np.int64)
        self._keep: list[object] = [keep, before, after]
        self._set("STEP", step)
        self._set("FINISHED", finished)
        self._set("TABLE", python_table())
        self._set("RELEASES", releases_gil)
        self._set("COPIED_IN", before.ctypes.data)
        self._set("COPIED_IN_COUNT", len(copied_in))
        self._set("COPIED_OUT", after.ctypes.data)
        self._set("COPIED_OUT_COUNT", len(copied_out))
        self.run: Callable[[], bool]
        if python_table():
            self.run = self._function(_CALL_STEP, _NO_ARGUMENTS)
        else:
            self.run = partial(_run, program.run, self._call, copied_in, copied_out, self._keep)

    @property
    def result(self) -> int:
        """The result of the last run."""
        return int(self._call[_RESULT])

    def on_arrays(
        self, inputs: Sequence["ArrayPort"], outputs: Sequence["ArrayPort"]
    ) -> ArrayFunction | None:
        """Returns a function that runs the step on arrays.

        Its arguments are the inputs. It returns the outputs, in new arrays; None if an argument is
        not a contiguous array of the port's type and shape, or if the step did not finish.

        Returns:
            None if the interpreter has no such functions.
        """
        if not python_table():
            return None
        for name, ports in (("INPUT", inputs), ("OUTPUT", outputs)):
            words = np.zeros((len(ports), len(_PORT)), np.int64)
            for row, port in zip(words, ports, strict=True):
                shape, cells = np.array(port.shape, np.int64), np.array(port.cells, np.int64)
                row[:] = (
                    id(port.dtype),
                    len(port.shape),
                    shape.ctypes.data,
                    port.size_bytes,
                    port.own,
                    port.own,
                    cells.ctypes.data,
                    len(port.cells),
                    0,
                )
                self._keep.extend((port.dtype, shape, cells))
            self._keep.append(words)
            self._set(f"{name}S", words.ctypes.data)
            self._set(f"{name}_COUNT", len(ports))
        return self._function(_CALL_ARRAYS, _FAST_ARGUMENTS)

    def _set(self, name: str, value: int) -> None:
        self._call[_CALL.index(name)] = value

    def _function(self, name: str, flags: int) -> Callable[..., Any]:
        new = _python().PyCFunction_NewEx
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object, ctypes.py_object)
        # The last argument is the function's module, which may be any object; it keeps the memory.
        method = _method(self._program.addresses[name], flags)
        function: Callable[..., Any] = new(ctypes.addressof(method), self._call, self._keep)
        return function


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayPort:
    """An input or output of `StepCall.on_arrays`.

    Attributes:
        dtype, shape, size_bytes: those of its arrays.
        own: its address in the arena; 0 if the step does not use it.
        cells: addresses of the step's arguments that refer to it. Without any, it is only copied.
    """

    dtype: "np.dtype[Any]"
    shape: tuple[int, ...]
    size_bytes: int
    own: int
    cells: tuple[int, ...]


def _run(
    run: Callable[[int], int],
    call: Words,
    copied_in: Sequence[Range],
    copied_out: Sequence[Range],
    keep: object,
) -> bool:
    """Does what `neurald_call_step` does."""
    for target, source, size in copied_in:
        ctypes.memmove(target, source, size)
    result = run(int(call[0]))
    call[_RESULT] = result
    if result != call[1]:
        return False
    for target, source, size in copied_out:
        ctypes.memmove(target, source, size)
    return True


def _words(copies: Sequence[Range]) -> Words:
    return np.array(copies, np.int64).reshape(-1)
