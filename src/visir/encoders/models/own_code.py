"""Python code that a model runs and that lies in other repositories on the hub, held at one commit each."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import RLock, get_ident
from typing import Any

from visir.errors import EncoderError
from visir.files import read_json

CODE = "*.py"
_FOREIGN = "transformers_modules."  # what transformers calls the modules of code that came with a model
_PATCHED = RLock()


class OtherCode:
    """The repositories of a model's code beside its own, each at one commit; those that appear later are added."""

    def __init__(
        self,
        model: str,
        folders: Iterable[Path],
        own: str | None,
        revisions: Mapping[str, str],
        fetch: Callable[[str, str | None, list[str]], Path],
    ) -> None:
        # fetch: `snapshot` of hub.py.
        self._model, self._own, self._main, self._fetch = model, own, list(folders), fetch
        named = [name for name in other_repositories(self._main) if name != own]
        self._asked = _asked_for(model, named, revisions)
        self._places: dict[str, Path] = {}
        for name in named:
            self._place(name)

    @property
    def commits(self) -> dict[str, str]:
        """The commit of each repository."""
        return {name: place.name for name, place in sorted(self._places.items())}

    def files(self) -> Iterator[tuple[str, Path]]:
        """The code: a name and a path of each file."""
        for name, place in sorted(self._places.items()):
            for path in sorted(place.rglob(CODE)):
                yield f"{name}/{path.relative_to(place).as_posix()}", path

    @contextmanager
    def held(self) -> Iterator[None]:
        """While a library reads the model in this thread, code comes from the commits of this object."""
        from transformers import dynamic_module_utils

        reader = get_ident()
        with _PATCHED:
            original = dynamic_module_utils.get_cached_module_file

            def from_commit(repository: Any, *args: Any, **kwargs: Any) -> Any:
                name = str(repository)
                if get_ident() == reader and not Path(name).is_dir():
                    repository = self._main[0] if name == self._own else self._place(name)
                return original(str(repository), *args, **kwargs)

            dynamic_module_utils.get_cached_module_file = from_commit
            try:
                yield
            finally:
                dynamic_module_utils.get_cached_module_file = original

    def check(self, model: Any) -> None:
        """Raise `EncoderError` if a part of `model` is a class of code that has changed since."""
        # Transformers remembers which class belongs to which configuration, as long as Python runs. A revision of a
        # repository that nothing came from is refused too.
        if unused := sorted(set(self._asked) - set(self._places)):
            raise EncoderError(
                f"{self._model}: code_revision: it runs no code of {' and '.join(unused)}.",
                hint=f"its code lies in {' and '.join(self._places) or 'no other repository'}",
                code="code-revision",
            )
        places = [*self._main, *self._places.values()]
        for name in sorted({type(part).__module__ for part in model.modules()}):
            if name.startswith(_FOREIGN):
                ran = Path(str(sys.modules[name].__file__))
                if not any(_is_copy(ran.parent, place) for place in places):
                    raise EncoderError(
                        f"{self._model}: its code {ran.name} has changed, and this Python still runs what it was.",
                        hint="start Python again, then load the model",
                        code="code-changed-python-still",
                    )

    def _place(self, repository: str) -> Path:
        if repository not in self._places:
            try:
                self._places[repository] = self._fetch(repository, self._asked.get(repository), [CODE])
            except EncoderError as fault:
                raise EncoderError(
                    f"{self._model}: it runs code of another repository, which could not be had: {fault.message}",
                    hint=fault.hint,
                    code="runs-code-another-repository",
                ) from fault
        return self._places[repository]


def other_repositories(folders: Iterable[Path]) -> list[str]:
    """The repositories, by name, that the configurations in these folders name as the place of code."""
    references: set[str] = set()
    for folder in folders:
        for path in sorted(folder.glob("*config*.json")):
            references.update(_mapped(read_json(path)))
        modules = folder / "modules.json"
        for module in read_json(modules) if modules.is_file() else ():
            if isinstance(module, dict):
                references.update(_texts(module.get("type")))
    return sorted({reference.partition("--")[0] for reference in references if "--" in reference})


def _is_copy(copied: Path, place: Path) -> bool:
    """Whether `copied` holds what transformers copied of the code in `place`: `…/NAME OF PLACE/HASH`."""
    name = os.path.normpath(place).rpartition(os.sep)[2].replace(".", "_dot_").replace("-", "_hyphen_")
    if copied.parent.name.lstrip("_") != name.lstrip("_"):  # it puts a line before a digit
        return False
    files = [path for path in copied.rglob(CODE) if path.name != "__init__.py"]  # which it makes
    pairs = [(path, place / path.relative_to(copied)) for path in files]
    return all(there.is_file() and there.read_bytes() == path.read_bytes() for path, there in pairs)


def _mapped(content: Any) -> Iterator[str]:
    """The texts in each `auto_map`, wherever it stands in a configuration."""
    if isinstance(content, dict):
        for key, value in content.items():
            yield from _texts(value) if key == "auto_map" else _mapped(value)
    elif isinstance(content, list):
        for value in content:
            yield from _mapped(value)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)


def _asked_for(model: str, named: list[str], revisions: Mapping[str, str]) -> dict[str, str]:
    """The revisions by repository."""
    wanted = dict(revisions)
    if "" in wanted:
        if len(named) != 1:
            there = " and ".join(named)
            raise EncoderError(
                f"{model}: code_revision: "
                + (f"its code lies in {there}." if named else "none of its code lies in another repository."),
                hint=f"code_revision={','.join(f'{name}@COMMIT' for name in named)}"
                if named
                else "leave it out; revision=COMMIT is that of the model and of the code beside it",
            )
        wanted[named[0]] = wanted.pop("")
    return wanted
