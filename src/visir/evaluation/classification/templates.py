"""Templates: sentences with a gap for the name of a class."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from visir.errors import ConfigurationError
from visir.evaluation.classification.clip_prompts import PREFIX, clip_prompts
from visir.files import is_there, read_lines

PLAIN = "a photo of a {}."
"""The template of the plain reading."""
_GAP = re.compile(r"\{\w*\}")


@dataclass(frozen=True)
class Templates:
    """Templates and where they come from."""

    name: str  # "clip/imagenet", a file, or "own"
    texts: tuple[str, ...]  # the templates

    def __str__(self) -> str:
        if len(self.texts) == 1:
            return f"{self.texts[0]!r}" + (f" ({self.name})" if self.name != "own" else "")
        return f"{len(self.texts)} templates of {self.name}" if self.name != "own" else f"{len(self.texts)} templates"


def templates_of(given: Any) -> Templates:
    """The templates that somebody names or writes."""
    if isinstance(given, Templates):
        return given
    if isinstance(given, Path) or (isinstance(given, str) and not _GAP.search(given)):
        if isinstance(given, str) and given.startswith(PREFIX):
            return Templates(clip_prompts(given).name, clip_prompts(given).templates)
        if not is_there(given) or not Path(given).is_file():
            raise ConfigurationError(
                f"{given}: neither a template nor a file of templates.",
                hint="a template has a gap for the class: 'a photo of a {}.'; lists of CLIP: clip/imagenet, …",
                code="neither-template-nor-file",
            )
        texts: Sequence[Any] = [line.strip() for line in read_lines(given) if line.strip()]
        return _checked(str(given), texts)
    return _checked("own", [given] if isinstance(given, str) else list(given))


def filled(template: str, name: str) -> str:
    """A template with a class name in its gap."""
    return _GAP.sub(lambda gap: name, template)


def _checked(name: str, texts: Sequence[Any]) -> Templates:
    if not texts:
        raise ConfigurationError(f"{name}: no templates.", hint=f"for example {PLAIN!r}")
    for text in texts:
        gaps = len(_GAP.findall(text)) if isinstance(text, str) else 0
        if gaps != 1:
            wrong = "no gap for the class" if gaps == 0 else "several gaps"
            raise ConfigurationError(f"template {text!r}: {wrong}.", hint=f"for example {PLAIN!r}")
    return Templates(name, tuple(dict.fromkeys(texts)))
