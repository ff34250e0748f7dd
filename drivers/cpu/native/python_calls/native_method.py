"""Functions of native code that Python calls like its own ones, as methods as well.

The function objects that CPython makes of native functions are no methods: an attribute of a class
that is one has to be wrapped, and each call of it then makes an object that binds it to its
instance. Here is a type of functions without that. Their class says that it is one of methods
(`Py_TPFLAGS_METHOD_DESCRIPTOR`), so that the interpreter passes the instance as the first argument,
and they have a native function for calls (`vectorcall`), which finds its words in the object.

The type is made by the interpreter's own function for extension modules, `PyType_FromSpec`. Only
the places of members that are declared to it are used.

Layouts (in 64-bit words):

    function  two words of any object; the native function, its words; what is kept, `__name__`,
              `__wrapped__`
"""

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from neurald.hal.lazy_numpy import Array

_WORD_BYTES: Final = 8
#: Places in the object, in bytes.
_NATIVE: Final = 16
FUNCTION_WORDS: Final = 24
_KEPT: Final = 32
_NAME: Final = 40
_WRAPPED: Final = 48
_BYTES: Final = 56

#: Flags of a type: what all have, that it takes part in the collection of garbage, that its objects
#: are called by a function that they have, and that they are methods.
_DEFAULT: Final = 1 << 18
_HAS_GARBAGE: Final = 1 << 14
_HAS_NATIVE_CALL: Final = 1 << 11
_IS_METHOD: Final = 1 << 17
#: Numbers of parts of a type in the stable binary interface.
_CALL: Final = 50
_BIND: Final = 54
_VISIT: Final = 71
_MEMBERS: Final = 72
#: Kinds of members: a number, and an object, without which the attribute is missing.
_NUMBER: Final = 19
_OBJECT: Final = 16
_READ_ONLY: Final = 1


class _Member(ctypes.Structure):
    """`PyMemberDef`."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("kind", ctypes.c_int),
        ("offset", ctypes.c_ssize_t),
        ("flags", ctypes.c_int),
        ("documentation", ctypes.c_char_p),
    )


class _Part(ctypes.Structure):
    """`PyType_Slot`."""

    _fields_ = (("number", ctypes.c_int), ("value", ctypes.c_void_p))


class _Specification(ctypes.Structure):
    """`PyType_Spec`."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("size", ctypes.c_int),
        ("item_size", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("parts", ctypes.POINTER(_Part)),
    )


class _WithSlots:
    """A class of which the type takes what visits the objects in the members of an object."""

    __slots__ = ("kept",)


def native_method(
    address: int, words: Array, function: Callable[..., Any], kept: object
) -> Callable[..., Any]:
    """Returns a function of Python that calls a native one, and is a method of a class that has it.

    Args:
        address: the address of the native function, which takes what a `vectorcallfunc` takes.
        words: its words, whose address it finds at `FUNCTION_WORDS` of the function object.
        function: what it stands for, whose name it has.
        kept: lives as long as the function.
    """
    made: Any = _method_type()()
    made._kept = (words, kept)
    made.__name__ = getattr(function, "__name__", type(function).__name__)
    made.__wrapped__ = function
    _word(made, FUNCTION_WORDS).value = words.ctypes.data
    # Last, since from here on it can be called.
    _word(made, _NATIVE).value = address
    function_object: Callable[..., Any] = made
    return function_object


def has_native_methods() -> bool:
    """Checks that the interpreter puts members where it is told to, and binds the functions."""
    made = _method_type()()
    made._kept, made.__name__, made.__wrapped__ = members = [object(), object(), object()]
    found = [_word(made, place).value for place in (_KEPT, _NAME, _WRAPPED)]
    owner: Any = type("Owner", (), {"method": made})
    bound = owner().method
    return (
        found == [id(each) for each in members]
        and bound.__func__ is made
        and owner.method is made
        and not any(_word(made, place).value for place in (_NATIVE, FUNCTION_WORDS))
    )


def _word(made: object, place: int) -> ctypes.c_uint64:
    """Returns the word at a place of an object."""
    return ctypes.c_uint64.from_address(id(made) + place)


@cache
def _method_type() -> Any:
    """Makes the type of functions."""
    python = ctypes.PyDLL(None)
    part = python.PyType_GetSlot
    part.restype, part.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_int)
    members = (_Member * 5)(
        _Member(b"__vectorcalloffset__", _NUMBER, _NATIVE, _READ_ONLY, None),
        _Member(b"_kept", _OBJECT, _KEPT, 0, None),
        _Member(b"__name__", _OBJECT, _NAME, 0, None),
        _Member(b"__wrapped__", _OBJECT, _WRAPPED, 0, None),
    )
    function = type(_word)
    parts = (_Part * 5)(
        _Part(_CALL, ctypes.cast(python.PyVectorcall_Call, ctypes.c_void_p).value),
        _Part(_BIND, part(function, _BIND)),
        _Part(_VISIT, part(_WithSlots, _VISIT)),
        _Part(_MEMBERS, ctypes.addressof(members)),
    )
    flags = _DEFAULT | _HAS_GARBAGE | _HAS_NATIVE_CALL | _IS_METHOD
    specification = _Specification(b"neurald.NativeMethod", _BYTES, 0, flags, parts)
    make = python.PyType_FromSpec
    make.restype, make.argtypes = ctypes.py_object, (ctypes.POINTER(_Specification),)
    made = make(specification)
    # Until Python 3.12 the type refers to the name.
    _used.extend((members, specification))
    return made


#: What the interpreter may read as long as the type exists.
_used: Final[list[object]] = []
