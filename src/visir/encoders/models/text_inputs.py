"""What a text network is given (`text_network`): arrays, made of texts without PyTorch and without transformers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Self

from numpy.typing import NDArray

from visir.registry import Registry

TEXT_INPUTS: Registry[str] = Registry("kind of inputs of a text network")
"""Kind to "module:class"; imported when asked for. A new kind is one file and one line here."""

TEXT_INPUTS.add("tokens", "visir.encoders.models.text_tokens:FastTokens")
TEXT_INPUTS.add("siglip", "visir.encoders.models.text_pieces:SiglipPieces")
TEXT_INPUTS.add("words", "visir.encoders.models.small:WordInputs")
TEXT_INPUTS.add("joined", "visir.encoders.models.text_inputs:JoinedInputs")


class TextInputs(ABC):
    """From texts to the inputs of a network. Thread-safe."""

    kind: ClassVar[str]  # its key in `TEXT_INPUTS`
    names: tuple[str, ...]  # what the inputs are called, in order

    @abstractmethod
    def __call__(self, texts: Sequence[str]) -> dict[str, NDArray[Any]]:
        """The inputs of n texts (n > 0) by name, each (n, …)."""

    @abstractmethod
    def values(self) -> dict[str, Any]:
        """Plain values that `read` needs beside the `files`."""

    @abstractmethod
    def files(self) -> dict[str, bytes]:
        """The files that `read` reads: their names and what is in them."""

    @classmethod
    @abstractmethod
    def read(cls, values: Mapping[str, Any], folder: Path) -> Self:
        """From what `values` gave, read back from JSON, and the folder with the `files`."""


def described(inputs: TextInputs) -> dict[str, Any]:
    """Kind and values, from which `read_inputs` makes them again."""
    return {"kind": inputs.kind, **inputs.values()}


def read_inputs(description: Mapping[str, Any], folder: Path) -> TextInputs:
    """The inputs that `described` described, whose files lie in `folder`."""
    values = dict(description)
    module, _, name = TEXT_INPUTS.get(values.pop("kind")).partition(":")
    kind: type[TextInputs] = getattr(import_module(module), name)
    return kind.read(values, folder)


class JoinedInputs(TextInputs):
    """Those of several networks side by side; "0.input_ids" is "input_ids" of the first."""

    kind = "joined"

    def __init__(self, parts: Sequence[TextInputs]) -> None:
        self._parts = tuple(parts)
        self.names = tuple(f"{number}.{name}" for number, part in enumerate(parts) for name in part.names)

    def __call__(self, texts: Sequence[str]) -> dict[str, NDArray[Any]]:
        """As the parts make them."""
        made = enumerate(part(texts) for part in self._parts)
        return {f"{number}.{name}": rows for number, inputs in made for name, rows in inputs.items()}

    def values(self) -> dict[str, Any]:
        """Those of each part."""
        return {"parts": [described(part) for part in self._parts]}

    def files(self) -> dict[str, bytes]:
        """Those of each part, in a folder of its own."""
        return {
            f"part{number}/{name}": content
            for number, part in enumerate(self._parts)
            for name, content in part.files().items()
        }

    @classmethod
    def read(cls, values: Mapping[str, Any], folder: Path) -> Self:
        """From the parts."""
        return cls([read_inputs(part, folder / f"part{number}") for number, part in enumerate(values["parts"])])
