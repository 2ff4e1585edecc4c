"""Loops that numba compiles to machine code, without its import (0.5 s with its registries) before the first is called.

A file of such loops is compiled loop by loop, each with its first call, and the machine code is kept on disk.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])
FEW = 2**25
"""Multiplications that NumPy does in a tenth of a second."""
_lock = threading.RLock()
_compilers: set[int] = set()
"""The threads that are `compiling`."""


def njit(*relaxed: str) -> Callable[[Function], Function]:
    """Decorate a loop: compiled with its first call and kept on disk; the interpreter's lock is free while it runs."""

    def decorate(function: Function) -> Function:
        return CompiledLoop(function, frozenset(relaxed))  # type: ignore[return-value]  # called like the function

    return decorate


class CompiledLoop:
    """A function that is compiled when it, or another of its file, is first called."""

    def __init__(self, function: Callable[..., Any], relaxed: frozenset[str]) -> None:
        self.function, self.relaxed = function, relaxed
        self.__doc__, self.__name__, self.__module__ = function.__doc__, function.__name__, function.__module__

    def __call__(self, *arguments: Any) -> Any:
        """Call the compiled function."""
        return self.compiled(*arguments)

    @cached_property
    def compiled(self) -> Callable[..., Any]:
        """The function of numba. The names of the file go over to those too: compiled code calls no others."""
        names = self.function.__globals__
        with _lock:
            for name, value in list(names.items()):
                if isinstance(value, CompiledLoop):
                    names[name] = value.own if value.function.__globals__ is names else value.compiled
            return self.own

    @cached_property
    def own(self) -> Callable[..., Any]:
        """The function of numba alone."""
        import numba

        compiled: Callable[..., Any] = numba.njit(
            cache=True, nogil=True, error_model="numpy", fastmath=set(self.relaxed) or False
        )(self.function)
        return compiled


def pays(numbers: int) -> bool:
    """Whether so many multiplications are worth the import of numba, or it is imported already."""
    # Where it is not, or another thread is `compiling`, the same is computed in NumPy (`visir.retrieval.few`): the
    # first answer of a new process then comes half a second earlier, and none waits for the compiler.
    ready = threading.get_ident() in _compilers if _compilers else "numba" in sys.modules
    return numbers > FEW or ready


@contextmanager
def compiling() -> Iterator[None]:
    """For a thread that compiles loops ahead by calling them; meanwhile `pays` spares other threads the wait for it."""
    thread = threading.get_ident()
    _compilers.add(thread)
    try:
        yield
    finally:
        _compilers.discard(thread)
