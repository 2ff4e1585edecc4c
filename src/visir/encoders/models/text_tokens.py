"""Token ids of texts, by the library `tokenizers` alone: what a text network of a transformer is given."""

from __future__ import annotations

import html
import re
import string
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from visir.encoders.models.text_inputs import TextInputs
from visir.errors import is_installed

TOKENIZER = "tokenizer.json"


@dataclass(frozen=True)
class TokenRules:
    """What happens to a text beside the tokenizer."""

    # What the network takes: "input_ids", and of some "attention_mask" and "token_type_ids" (zeros).
    names: tuple[str, ...]
    limit: int | None  # texts are cut to so many tokens; None reads all
    padded: bool  # whether they are padded to the limit; otherwise to the longest of a batch
    side: str  # where they are padded: "right" or "left"
    padding: int  # the token that they are padded with
    template: str = "{}"  # a text with one `{}` for the place of the text
    cleaning: str = ""  # a key of `CLEANING`: what is done to the text in its template

    def filled(self, texts: Sequence[str]) -> list[str]:
        """The texts as the tokenizer gets them."""
        clean = CLEANING[self.cleaning]
        return [clean(self.template.replace("{}", text)) for text in texts]


class TokenInputs(TextInputs):
    """Token ids, cut and padded by rules."""

    def __init__(self, rules: TokenRules) -> None:
        self.rules, self.names = rules, rules.names

    @abstractmethod
    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The token ids of each text that the rules have filled in: cut, not padded."""

    def __call__(self, texts: Sequence[str]) -> dict[str, NDArray[Any]]:
        """The names of the rules, each (n, L) int64."""
        rules = self.rules
        length = rules.limit if rules.padded else None
        rows = padded_rows(self.ids(rules.filled(texts)), token=rules.padding, side=rules.side, length=length)
        rows["token_type_ids"] = np.zeros_like(rows["input_ids"])
        return {name: rows[name] for name in rules.names}

    def values(self) -> dict[str, Any]:
        """The rules."""
        return {"rules": asdict(self.rules)}


class FastTokens(TokenInputs):
    """A tokenizer of the library `tokenizers`."""

    kind = "tokens"

    def __init__(self, tokenizer: bytes, rules: TokenRules) -> None:
        from tokenizers import Tokenizer

        if rules.cleaning.startswith("open_clip") and not is_installed("ftfy"):  # imported when a text needs it
            raise ModuleNotFoundError("No module named 'ftfy'")
        super().__init__(rules)
        self._content = tokenizer
        self._tokenizer = Tokenizer.from_buffer(tokenizer)
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        if rules.limit is not None:
            self._tokenizer.enable_truncation(rules.limit)

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The token ids of each text."""
        return [encoding.ids for encoding in self._tokenizer.encode_batch(texts)]

    def files(self) -> dict[str, bytes]:
        """The tokenizer."""
        return {TOKENIZER: self._content}

    @classmethod
    def read(cls, values: Mapping[str, Any], folder: Path) -> Self:
        """From the rules and the tokenizer's file."""
        return cls((folder / TOKENIZER).read_bytes(), rules_of(values))


def rules_of(values: Mapping[str, Any]) -> TokenRules:
    """The rules among the values of token inputs, read back from JSON."""
    rules = values["rules"]
    return TokenRules(**{**rules, "names": tuple(rules["names"])})


def padded_rows(
    ids: Sequence[Sequence[int] | NDArray[np.int32]], *, token: int, side: str, length: int | None
) -> dict[str, NDArray[np.int64]]:
    """ "input_ids" and "attention_mask" (1 where there is text) of a batch, each (n, L)."""
    width = max(map(len, ids)) if length is None else length
    rows, mask = np.full((len(ids), width), token, np.int64), np.zeros((len(ids), width), np.int64)
    for row, tokens in enumerate(ids):
        columns = slice(0, len(tokens)) if side == "right" else slice(width - len(tokens), width)
        rows[row, columns], mask[row, columns] = tokens, 1
    return {"input_ids": rows, "attention_mask": mask}


def _mended(text: str) -> str:
    """The first step of open_clip's cleaning: broken encodings mended, HTML entities written out."""
    # In plain ASCII without "&" there is nothing to mend, and the package for it need not be imported.
    if text.isascii() and text.isprintable() and "&" not in text:
        return text.strip()
    import ftfy

    return html.unescape(html.unescape(ftfy.fix_text(text))).strip()


def _spaced(text: str) -> str:
    return " ".join(_mended(text).split())


def _canonical(text: str) -> str:
    """As big_vision's `canonicalize_text`: lower case, no punctuation."""
    plain = _mended(text).replace("_", " ").translate(_NO_PUNCTUATION).lower()
    return " ".join(plain.split())


def _without_glued_marks(text: str) -> str:
    """Break marks right behind punctuation, which CLIP's tokenizer does not take for marks: "!<end _of_text>"."""
    # The words are the same, because punctuation and letters are parted anyway.
    return _MARKS.sub(lambda match: match[1] or f"{match[2]} ", text)


_MARKS = re.compile(r"(<(?:start|end)_of_text>)|((?:[^\w\s]|_)+(?:start|end))(?=_of_text>)")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
CLEANING: dict[str, Callable[[str], str]] = {
    "": lambda text: text,
    "lower case": str.lower,
    "open_clip whitespace": _spaced,
    "open_clip lower": lambda text: _spaced(text).lower(),
    "open_clip canonicalize": _canonical,
    "open_clip lower, CLIP's marks": lambda text: _without_glued_marks(_spaced(text).lower()),
}
"""What is done to a text before the tokenizer; those of open_clip as its `get_clean_fn` has them."""
