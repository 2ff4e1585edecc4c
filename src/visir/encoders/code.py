"""What the code of own functions and classes *is*: a short mark that changes when they are edited."""

from __future__ import annotations

import dis
import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any

_DEPTH = 6
"""Functions that call functions: so many steps are followed."""
_PLAIN = (str, bytes, int, float, complex, bool, type(None))


def hash_code(*callables: object) -> str:
    """32 hexadecimal digits over the code of functions, and of what they use from their own modules."""
    # The code of a function is its compiled code, its defaults, the plain values (numbers, texts) of the variables
    # around it, and the code of the functions and classes of its own module that it names. Comments and layout do not
    # count. The weights of a model do not count either, nor do other modules.
    digest = hashlib.blake2b(digest_size=16)
    for value in callables:
        for part in _parts(value, set(), _DEPTH):
            digest.update(part.encode() + b"\0")
    return digest.hexdigest()


def _parts(value: Any, known: set[int], depth: int) -> Iterator[str]:
    """What the hash is of, in a fixed order."""
    if isinstance(value, _PLAIN):
        yield f"{type(value).__name__} {value!r}"
    elif isinstance(value, tuple | list):
        yield type(value).__name__
        for entry in value:
            yield from _parts(entry, known, depth)
    elif isinstance(value, MethodType):
        yield from _parts(value.__func__, known, depth)
    elif isinstance(value, partial):
        yield from _parts((value.func, value.args, *sorted(value.keywords.items())), known, depth)
    elif id(value) in known or depth == 0:
        yield "again"
    elif isinstance(value, FunctionType):
        known.add(id(value))
        yield from _function(value, known, depth)
    elif isinstance(value, type):
        known.add(id(value))
        yield f"class {value.__qualname__}"
        for name, member in sorted(vars(value).items()):
            bare = getattr(member, "__func__", getattr(member, "fget", member))
            constant = isinstance(bare, _PLAIN) and not name.startswith("__")
            if constant or isinstance(bare, FunctionType):
                yield name
                yield from _parts(bare, known, depth - 1)
    else:
        kind = type(value)
        yield f"object of {kind.__module__}.{kind.__qualname__}"


def _function(function: Callable[..., Any], known: set[int], depth: int) -> Iterator[str]:
    assert isinstance(function, FunctionType)
    wrapped = getattr(function, "__wrapped__", None)
    if wrapped is not None:
        yield from _parts(wrapped, known, depth)
    yield from _code(function.__code__)
    yield from _parts((function.__defaults__, *sorted((function.__kwdefaults__ or {}).items())), known, depth - 1)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        yield f"around: {name}"
        try:
            content = cell.cell_contents
        except ValueError:  # a variable that has no value yet
            continue
        yield from _parts(content, known, depth - 1)
    for name in sorted(_globals(function.__code__)):
        if name in function.__globals__:
            value = function.__globals__[name]
            own = getattr(value, "__module__", None) == function.__module__
            if isinstance(value, _PLAIN) or (own and isinstance(value, FunctionType | type)):
                yield f"global: {name}"
                yield from _parts(value, known, depth - 1)


def _code(code: CodeType) -> Iterator[str]:
    yield code.co_code.hex()
    yield " ".join(code.co_names + code.co_varnames + code.co_freevars)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code(constant)
        elif isinstance(constant, frozenset):
            yield repr(sorted(map(repr, constant)))
        else:
            yield repr(constant)


def _globals(code: CodeType) -> set[str]:
    """The names of the module that a function and the functions inside it read."""
    names = {entry.argval for entry in dis.get_instructions(code) if entry.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return names.union(*(_globals(constant) for constant in code.co_consts if isinstance(constant, CodeType)))
