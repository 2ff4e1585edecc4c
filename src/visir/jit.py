"""Loops that numba compiles to machine code, without its import (0.5 s with its registries) before the first is called.

A file of such loops is compiled loop by loop, each with its first call, and the machine code is kept on disk.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])
FEW = 2**25
"""Multiplications that NumPy does in a tenth of a second."""
COMPILING = 64 * FEW
"""Those that it does while numba compiles a file of loops, some seconds."""
_lock = threading.RLock()
_compilers: set[int] = set()
"""The threads that are `compiling`."""
_spared: Counter[str] = Counter()
"""The multiplications that NumPy did in the place of each loop."""
_known_ready: set[Any] = set()
"""Loops that were found ready, which they stay."""


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

    @property
    def signatures(self) -> list[Any]:
        """The types of arguments that it is compiled for in this process, as numba's functions say them."""
        return self.own.signatures if "own" in self.__dict__ else []  # type: ignore[attr-defined]

    @cached_property
    def own(self) -> Callable[..., Any]:
        """The function of numba alone."""
        import numba

        compiled: Callable[..., Any] = numba.njit(
            cache=True, nogil=True, error_model="numpy", fastmath=set(self.relaxed) or False
        )(self.function)
        return compiled


class CompiledInstruction(CompiledLoop):
    """A decorator: an instruction of LLVM that compiled loops of its file use (`numba.extending.intrinsic`)."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function, frozenset())

    @cached_property
    def own(self) -> Any:
        """The intrinsic of numba."""
        from numba.extending import intrinsic

        return intrinsic(self.function)


def pays(numbers: int, *loops: Any) -> bool:
    """Whether so many multiplications are worth loops of numba, or these are ready: compiled here or kept on disk."""
    # Where they are not, or another thread is `compiling`, the same is computed in NumPy (`visir.retrieval.few`): the
    # first answer of a new process then comes half a second earlier, and none waits for the compiler.
    if numbers > FEW or not _compilers:
        return numbers > FEW or all(_ready(loop, numbers) for loop in loops)
    return threading.get_ident() in _compilers


def _ready(loop: Any, numbers: int) -> bool:
    """Whether a loop is called without waiting for the compiler, or was spared so often that the wait has paid."""
    if loop in _known_ready:  # asked with every search: numba takes longer to list the signatures
        return True
    name = f"{loop.__module__}.{loop.__name__}"
    _spared[name] += numbers
    ready = bool(loop.signatures) or _spared[name] > COMPILING
    if not ready and ("numba" in sys.modules or _spared[name] > FEW):
        compiled: Any = loop.own if isinstance(loop, CompiledLoop) else loop
        ready = Path(compiled._cache._cache_file._index_path).exists()
    if ready:
        _known_ready.add(loop)
    return ready


@contextmanager
def compiling() -> Iterator[None]:
    """For a thread that compiles loops ahead by calling them; meanwhile `pays` spares other threads the wait for it."""
    thread = threading.get_ident()
    _compilers.add(thread)
    try:
        yield
    finally:
        _compilers.discard(thread)
