"""Loops that numba compiles to machine code, without its import (0.5 s with its registries) before the first is called.

A file of such loops is compiled loop by loop, each with its first call, and the machine code is kept on disk. No search
waits for that: `pays` says whether loops are there to be called. Where they are not, the same is computed in NumPy, and
where that is much work, a process of its own compiles them meanwhile, by the function `rehearse` of their file. It
goes on when the command that began it ends: the next one finds them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from types import FunctionType
from typing import Any, TypeVar

from visir.plugins import same_python

Function = TypeVar("Function", bound=Callable[..., Any])
FEW = 2**25
"""Multiplications that NumPy does in a tenth of a second; from so many on loops are loaded, or compiled."""
_lock, _one_rehearsal = threading.RLock(), threading.Lock()
_compilers: set[int] = set()
"""The threads that are `compiling`."""
_spared: Counter[str] = Counter()
"""The multiplications that NumPy did in the place of each loop."""
_loops: dict[str, CompiledLoop] = {}
"""All loops, by the names that numba's functions, which take their places, have too."""
_known_ready: set[Any] = set()
"""Loops that were found ready, which they stay."""
_rehearsed: dict[str, threading.Thread] = {}
"""The files whose loops a thread compiles, or has compiled."""


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
        _loops[f"{self.__module__}.{self.__name__}"] = self

    def __call__(self, *arguments: Any) -> Any:
        """Call the compiled function."""
        return self.compiled(*arguments)

    @cached_property
    def compiled(self) -> Callable[..., Any]:
        """The function of numba. The names of the file go over to those too: compiled code calls no others."""
        names, rehearsal = self.function.__globals__, _rehearsed.get(self.__module__)
        if rehearsal is not None and threading.get_ident() not in _compilers:
            rehearsal.join()  # what is being compiled is not compiled twice
        with _lock:
            for name, value in list(names.items()):
                if isinstance(value, CompiledLoop):
                    names[name] = value.own if value.function.__globals__ is names else value.compiled
            return self.own

    @property
    def signatures(self) -> list[Any]:
        """The types of arguments that it is compiled for in this process, as numba's functions say them."""
        return self.own.signatures if "own" in self.__dict__ else []  # type: ignore[attr-defined]

    def is_kept(self) -> bool:
        """Whether its machine code for this processor and this text of its file is kept on disk."""
        from numba.core.registry import cpu_target

        own: Any = self.own
        processor = cpu_target.target_context.codegen().magic_tuple()
        return any(key[1] == processor for key in own._cache._cache_file._load_index())

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


def interpreted(loop: Any) -> Callable[..., Any]:
    """The function of a loop as Python runs it, and so the loops of its file that it calls; for little work."""
    # In a copy of their file's names: in the file itself numba's functions take their places.
    given = _loops[f"{loop.__module__}.{loop.__name__}"].function
    names = dict(given.__globals__)
    for other in _loops.values():
        if other.function.__globals__ is given.__globals__:
            names[other.function.__name__] = FunctionType(other.function.__code__, names)
    function: Callable[..., Any] = names[given.__name__]
    return function


def plain(array: Any) -> Any:
    """The same memory as a plain array that cannot be written: one type, for which loops are compiled once."""
    import numpy

    if type(array) is numpy.ndarray and not array.flags.writeable:
        return array
    view = numpy.asarray(array).view()
    view.flags.writeable = False
    return view


def pays(numbers: int, *loops: Any) -> bool:
    """Whether loops of numba are worth it for so many multiplications: they are compiled here, or kept on disk."""
    # A thread that is `compiling` calls all loops. Numba has one lock for what is not yet compiled or loaded, so the
    # others call meanwhile what is ready in this process, and compute the rest in NumPy.
    if threading.get_ident() in _compilers:
        return True
    ready = True
    for loop in loops:
        ready = (loop in _known_ready or _ready(loop, numbers)) and ready
    return ready


def _ready(given: Any, numbers: int) -> bool:
    """Whether a loop can be called without waiting for the compiler; where it was spared often, it soon will be."""
    name = f"{given.__module__}.{given.__name__}"
    loop = _loops[name]
    _spared[name] += numbers
    worth, rehearsal = "numba" in sys.modules or _spared[name] > FEW, _rehearsed.get(loop.__module__)
    waits = bool(_compilers) or (rehearsal is not None and rehearsal.is_alive())
    if loop.signatures or (worth and not waits and loop.is_kept()):
        _known_ready.add(given)
        return True
    if _spared[name] > FEW and not _compilers and rehearsal is None:
        _begin(loop)
    return False


def compile_ahead(given: Any) -> None:
    """Have the loops of a file compiled meanwhile, for work to come that calls them whatever it costs to wait."""
    loop = _loops[f"{given.__module__}.{given.__name__}"]
    if not (loop.signatures or _compilers or loop.__module__ in _rehearsed or loop.is_kept()):
        _begin(loop)


def _begin(loop: CompiledLoop) -> None:
    thread = threading.Thread(target=_compile_meanwhile, args=(loop,), name="visir-compiling", daemon=True)
    _rehearsed[loop.__module__] = thread
    thread.start()


def _compile_meanwhile(loop: CompiledLoop) -> None:
    """Have another process compile the loops of a file; what it cannot keep on disk is compiled here."""
    python, environment = same_python()
    with suppress(OSError):
        subprocess.run(
            [*python, "-c", _REHEARSAL, loop.__module__], env=environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True, check=False,
        )  # fmt: skip
    if not loop.is_kept():
        with _one_rehearsal, compiling():
            loop.function.__globals__["rehearse"]()


_REHEARSAL = """
import importlib, os, sys
os.nice(5) if hasattr(os, "nice") else None
from visir.jit import compiling
with compiling():
    importlib.import_module(sys.argv[1]).rehearse()
"""


@contextmanager
def compiling() -> Iterator[None]:
    """For a thread that compiles loops ahead by calling them; meanwhile `pays` spares other threads the wait for it."""
    thread = threading.get_ident()
    _compilers.add(thread)
    try:
        yield
    finally:
        _compilers.discard(thread)


_held: list[Any] = []
"""The lock of llvmlite, while a process is forked."""


def _before_fork() -> None:
    """Wait until no thread is inside LLVM: in the forked process it would never come out, nor let others in."""
    lock = getattr(getattr(sys.modules.get("llvmlite.binding.ffi"), "lib", None), "_lock", None)
    if lock is not None:
        lock.__enter__()
        _held.append(lock)


def _after_fork() -> None:
    """Let other threads in again."""
    if _held:
        _held.pop().__exit__()


def _after_fork_in_child() -> None:
    """In a forked process no thread compiles, and none holds numba's lock, or ours."""
    global _lock, _one_rehearsal
    _after_fork()
    _lock = threading.RLock()
    _compilers.clear()
    _rehearsed.clear()
    _one_rehearsal = threading.Lock()
    if "numba.core.compiler_lock" in sys.modules:
        sys.modules["numba.core.compiler_lock"].global_compiler_lock._lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)
