"""What a text network is given (`exported.py`): arrays, made of texts without PyTorch and without transformers."""

from __future__ import annotations

import hashlib
import html
import io
import re
import string
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import orjson
from numpy.typing import NDArray

from visir.encoders.families import TEXT_INPUTS
from visir.encoders.intake import TextLimit
from visir.errors import EncoderError, is_installed

if TYPE_CHECKING:
    import torch


class TextInputs(ABC):
    """From texts to the inputs of a network. Thread-safe."""

    kind: ClassVar[str]  # its key in `TEXT_INPUTS`
    file_names: ClassVar[tuple[str, ...]] = ()  # the names of its `files`
    names: tuple[str, ...]  # what the inputs are called, in order

    def __init__(self, values: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
        # Plain values, and what is in files: all that it is made of, and so all that is kept of it.
        self.values, self.files = values, files

    @abstractmethod
    def __call__(self, texts: Sequence[str]) -> dict[str, NDArray[Any]]:
        """The inputs of n texts (n > 0) by name, each (n, …)."""

    @classmethod
    def read(cls, values: Mapping[str, Any], folder: Path) -> Self:
        """From its `values`, read back from JSON, and the folder with its `files`."""
        return cls(values, {name: (folder / name).read_bytes() for name in cls.file_names})

    @classmethod
    def read_once(cls, values: Mapping[str, Any], folder: Path) -> TextInputs:
        """The same for a text or two: what takes long to read may be read in part."""
        return cls.read(values, folder)


def described(inputs: TextInputs) -> dict[str, Any]:
    """Kind and values, from which `read_inputs` makes them again."""
    return {"kind": inputs.kind, **inputs.values}


def read_inputs(description: Mapping[str, Any], folder: Path, *, once: bool = False) -> TextInputs:
    """The inputs that `described` described, whose files lie in `folder`."""
    values = dict(description)
    module, _, name = TEXT_INPUTS.get(values.pop("kind")).partition(":")
    kind: type[TextInputs] = getattr(import_module(module), name)
    return kind.read_once(values, folder) if once else kind.read(values, folder)


class JoinedInputs(TextInputs):
    """Those of several networks side by side; "0.input_ids" is "input_ids" of the first."""

    kind = "joined"

    def __init__(self, parts: Sequence[TextInputs]) -> None:
        numbered = list(enumerate(parts))
        files = {f"part{number}/{name}": content for number, part in numbered for name, content in part.files.items()}
        super().__init__({"parts": [described(part) for part in parts]}, files)
        self._parts = tuple(parts)
        self.names = tuple(f"{number}.{name}" for number, part in numbered for name in part.names)

    def __call__(self, texts: Sequence[str]) -> dict[str, NDArray[Any]]:
        """As the parts make them."""
        made = enumerate(part(texts) for part in self._parts)
        return {f"{number}.{name}": rows for number, inputs in made for name, rows in inputs.items()}

    @classmethod
    def read(cls, values: Mapping[str, Any], folder: Path, *, once: bool = False) -> Self:
        """From the parts, each in a folder of its own."""
        parts = enumerate(values["parts"])
        return cls([read_inputs(part, folder / f"part{number}", once=once) for number, part in parts])

    @classmethod
    def read_once(cls, values: Mapping[str, Any], folder: Path) -> TextInputs:
        """The same for a text or two."""
        return cls.read(values, folder, once=True)


TOKENIZER, PIECES = "tokenizer.json", "pieces.npz"


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

    def __init__(self, values: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
        super().__init__(values, files)
        rules = values["rules"]
        self.names = tuple(rules["names"])
        self.rules = TokenRules(**{**rules, "names": self.names})

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


class FastTokens(TokenInputs):
    """A tokenizer of the library `tokenizers`."""

    kind = "tokens"
    file_names = (TOKENIZER,)

    def __init__(self, values: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
        super().__init__(values, files)
        if self.rules.cleaning.startswith("open_clip") and not is_installed("ftfy"):  # imported when a text needs it
            raise ModuleNotFoundError("No module named 'ftfy'")
        self._tokenizer = self._made(files[TOKENIZER])

    @classmethod
    def read_once(cls, values: Mapping[str, Any], folder: Path) -> TextInputs:
        """From the pieces of its vocabulary, where they were kept."""
        pieces, whole = folder / PIECES, partial(cls.read, values, folder)
        return FewTokens(values, {PIECES: pieces.read_bytes()}, whole) if pieces.is_file() else whole()

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The token ids of each text."""
        return [encoding.ids for encoding in self._tokenizer.encode_batch(texts)]

    def _made(self, content: bytes) -> Any:
        """A tokenizer of this content that cuts and does not pad."""
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_buffer(content)
        tokenizer.no_padding()
        tokenizer.no_truncation()
        if self.rules.limit is not None:
            tokenizer.enable_truncation(self.rules.limit)
        return tokenizer


# A vocabulary has 30,000 to 260,000 pieces, which take .1 s and 30 MB and more to read. One text needs some hundred:
# those that stand in its own words. Merges join pieces of a word, and what WordPiece cuts off are pieces of it, so a
# tokenizer of these alone gives the same ids. They are looked up by their hashes.


class FewTokens(FastTokens):
    """The ids that `FastTokens` gives, of a text or two."""

    _LONGEST = 400
    """Characters; more have so many pieces that the whole vocabulary is read."""

    def __init__(self, values: Mapping[str, Any], files: Mapping[str, bytes], whole: Callable[[], FastTokens]) -> None:
        with np.load(io.BytesIO(files[PIECES])) as arrays:
            self._arrays = dict(arrays)
        self._whole = whole
        self._frame = orjson.loads(self._arrays["frame"].tobytes())
        super().__init__(values, {TOKENIZER: orjson.dumps(self._frame)})
        added = self._frame["added_tokens"]
        # Some are looked for in the plain text, as they are written there: "[Mark]" where all is lower case.
        written = {self._plain(token["content"]) for token in added if token["normalized"]}
        self._marks = {token["content"] for token in added} | written

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The token ids of each text."""
        words: set[str] = set()
        for text in texts:
            plain = self._plain(text)
            if any(mark in form for mark in self._marks for form in (text, plain)):  # it parts the text
                return self._by_all(texts)
            parts = self._tokenizer.pre_tokenizer
            words.update([plain] if parts is None else (word for word, _ in parts.pre_tokenize_str(plain)))
        if sum(map(len, words)) > self._LONGEST:
            return self._by_all(texts)
        few = self._with_pieces_of(words)
        if few is None:
            return self._by_all(texts)
        return [encoding.ids for encoding in self._made(few).encode_batch(texts)]

    def _plain(self, text: str) -> str:
        normalizer = self._tokenizer.normalizer
        return text if normalizer is None else str(normalizer.normalize_str(text))

    def _by_all(self, texts: Sequence[str]) -> list[list[int]]:
        return self._whole().ids(texts)

    def _with_pieces_of(self, words: Iterable[str]) -> bytes | None:
        """The tokenizer with the pieces of its vocabulary that are parts of these words; None where these do not do."""
        arrays, model = self._arrays, self._frame["model"]
        before, behind = (model.get(name) or "" for name in ("continuing_subword_prefix", "end_of_word_suffix"))
        longest = max(int(arrays["longest"]), *map(len, self._marks), 1)
        parts = {word[first:end] for word in words for first in range(len(word))
                 for end in range(first + 1, min(len(word), first + longest) + 1)}  # fmt: skip
        wanted = [*parts, *(before + part for part in parts if before), *(part + behind for part in parts if behind)]
        if not self._marks.isdisjoint(wanted):  # a mark like "Ġa", which the bytes of " a" are written as, is no piece
            return None
        hashes = np.array([_hash_of(piece) for piece in wanted], np.uint64)
        places = np.searchsorted(arrays["hashes"], hashes)
        known = np.flatnonzero(np.append(arrays["hashes"], 0)[places] == hashes)
        pieces = {int(places[row]): wanted[row] for row in known}
        few = {"vocab": model["vocab"] | {piece: int(arrays["ids"][place]) for place, piece in pieces.items()}}
        if "merges" in model:
            # Where nothing stands for unknown letters, they go, and letters meet that are not side by side in a word.
            letters = {letter for word in words if word for letter in (*word[:-1], word[-1] + behind)}
            if model.get("unk_token") is None and not letters <= few["vocab"].keys():
                return None
            pairs = arrays["pairs"][np.isin(arrays["merged"], [*pieces])].tolist()
            # Of two ways to one piece, the other may begin with what is in no word: "a<" and "/w>" for "a</w>".
            few["merges"] = [
                [pieces[left], pieces[right]] for left, right in pairs if left in pieces and right in pieces
            ]
        return orjson.dumps({**self._frame, "model": {**model, **few}})


def _hash_of(piece: str) -> int:
    return int.from_bytes(hashlib.blake2b(piece.encode(), digest_size=8).digest(), "little")


def pieces_of(content: bytes) -> bytes | None:
    """The vocabulary of a tokenizer (`tokenizer.json`) as `FewTokens` looks it up; None for one of another kind."""
    frame = orjson.loads(content)
    model = frame["model"]
    is_bpe = model["type"] == "BPE" and not model.get("continuing_subword_prefix") and not model.get("dropout")
    if not is_bpe and model["type"] != "WordPiece":
        return None
    vocabulary: dict[str, int] = model["vocab"]
    hashes = np.array([_hash_of(piece) for piece in vocabulary], np.uint64)
    order = np.argsort(hashes)
    if len(np.unique(hashes)) < len(hashes):
        return None
    place = dict(zip(vocabulary, np.argsort(order).tolist(), strict=True))
    arrays: dict[str, NDArray[Any]] = {
        "hashes": hashes[order],
        "ids": np.array([*vocabulary.values()], np.int32)[order],
    }
    # What is not in a text: marks, the piece for what is unknown, and bytes that stand for unknown characters.
    always = {token["content"]: token["id"] for token in frame["added_tokens"]}
    always |= {piece: number for piece, number in vocabulary.items()
               if piece == model.get("unk_token") or (len(piece) == 6 and piece.startswith("<0x"))}  # fmt: skip
    few: dict[str, Any] = {"vocab": always}
    if is_bpe:
        merges = [pair if isinstance(pair, list) else pair.split(" ") for pair in model["merges"]]
        few["merges"] = []
        arrays["pairs"] = np.array([[place[left], place[right]] for left, right in merges], np.int32).reshape(-1, 2)
        arrays["merged"] = np.array([place[left + right] for left, right in merges], np.int32)
    arrays["frame"] = np.frombuffer(orjson.dumps({**frame, "model": {**model, **few}}), np.uint8)
    arrays["longest"] = np.array(max(map(len, vocabulary), default=1))
    packed = io.BytesIO()
    np.savez(packed, allow_pickle=False, **arrays)
    return packed.getvalue()


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


MODEL = "spiece.model"
_SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # how SentencePiece writes a space


class SiglipPieces(TokenInputs):
    """What `transformers.SiglipTokenizer` does: marks split off, lower case, no punctuation, pieces, an end mark."""

    kind = "siglip"
    file_names = (MODEL,)

    def __init__(self, values: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
        from sentencepiece import SentencePieceProcessor

        super().__init__(values, files)
        self._unknown, self._end, self._lower = values["unknown"], values["end"], values["lower"]
        self._model = SentencePieceProcessor(model_proto=files[MODEL])
        self._skipped = len(self._model.encode(self._unknown))
        self._marks = {content: (number, left, right) for content, number, left, right in values["marks"]}
        longest_first = sorted(self._marks, key=len, reverse=True)
        self._splitting = re.compile(f"({'|'.join(map(re.escape, longest_first))})")

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The token ids of each text."""
        return [self._cut(self._ids(text)) for text in texts]

    def _ids(self, text: str) -> list[int]:
        parts = self._splitting.split(_SPACE + text.replace(_SPACE, " "))
        for place, part in enumerate(parts):
            if part in self._marks:
                _, left, right = self._marks[part]
                if right and place + 1 < len(parts):
                    parts[place + 1] = parts[place + 1].lstrip()
                if left and place > 0:
                    parts[place - 1] = parts[place - 1].rstrip()
        pieces = [piece for part in filter(None, parts) for piece in self._pieces(part)]
        if len(pieces) > 1 and pieces[0] == _SPACE and pieces[1] in self._marks:
            pieces = pieces[1:]
        return [self._marks[piece][0] if piece in self._marks else self._model.piece_to_id(piece) for piece in pieces]

    def _pieces(self, text: str) -> list[str]:
        if text in self._marks:
            return [text]
        text = (text.lower() if self._lower else text).translate(_NO_PUNCTUATION)
        text = re.sub(r"\s+", " ", text).strip()
        pieces: list[str] = self._model.encode(self._unknown + text, out_type=str)
        return pieces[self._skipped :] if len(pieces) >= self._skipped else pieces

    def _cut(self, ids: list[int]) -> list[int]:
        if self.rules.limit is not None:
            ids = ids[: self.rules.limit - 1]
        return ids if ids and ids[-1] == self._end else [*ids, self._end]


Padding = Literal["longest", "max_length"]
_ANY = 10**6
"""A limit above this is none."""
_UNKNOWN = 512
TOKENIZER_FILES = ("tokenizer.json", "vocab.json", "vocab.txt", "*.model", "*.spm")


class Tokens:
    """The tokenizer saved in a model's folder."""

    def __init__(
        self,
        folder: Path,
        *,
        limit: int | None,
        vocabulary: int | None,
        padding: Padding = "longest",
        inputs: tuple[str, ...] = ("input_ids", "attention_mask"),
        template: str = "{}",
        max_length: int | None = None,
        code: bool = False,
    ) -> None:
        from transformers import AutoTokenizer

        # Without its files, transformers makes a tokenizer of three tokens and says nothing.
        if not any(path for pattern in TOKENIZER_FILES for path in folder.glob(pattern)):
            raise EncoderError(
                f"{folder}: there is no tokenizer in this folder (none of {', '.join(TOKENIZER_FILES)}).",
                hint="save it beside the model: tokenizer.save_pretrained(folder)",
                code="no-tokenizer-folder-none",
            )
        self._tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=code)
        check_vocabulary(str(folder), self._tokenizer, vocabulary)
        own = int(self._tokenizer.model_max_length)  # about 1e30 when the tokenizer was saved without one
        limit = limit or (own if own < _ANY else _UNKNOWN)
        self.limit = min(limit, own)
        if max_length is not None and max_length > limit:
            raise EncoderError(
                f"{folder}: max_length={max_length} is more than the {limit} tokens this model has positions for.",
                hint=f"at most {limit}",
                code="max-length-more-tokens",
            )
        self.limit = max_length or self.limit
        self.padding, self.inputs, self.template, self.vocabulary = padding, inputs, template, vocabulary
        # SigLIP 2 was trained on lower-cased text, but is published with Gemma's tokenizer, which keeps case.
        self.lower = "Gemma" in type(self._tokenizer).__name__
        # A fast tokenizer changes its padding state in place, and fails ("Already borrowed") when two threads do so.
        self._lock = threading.Lock()

    def ids(self, texts: Sequence[str]) -> list[NDArray[np.int32]]:
        """The token ids of each text: cut, not padded. Thread-safe."""
        with self._lock:
            cut = self._tokenizer(self._filled(texts), padding=False, truncation=True, max_length=self.limit)
        encoded = cut["input_ids"]
        largest = max((max(ids) for ids in encoded if ids), default=0)
        if self.vocabulary is not None and largest >= self.vocabulary:
            raise EncoderError(
                f"token {largest} is outside the model's vocabulary of {self.vocabulary}.",
                hint="the tokenizer in this folder belongs to another model",
                code="token-outside-model-vocabulary",
            )
        return [np.asarray(ids, dtype=np.int32) for ids in encoded]

    def text_limit(self) -> TextLimit:
        """The limit, and how many tokens a text has."""
        return TextLimit(self.limit, self._counts)

    def collate(self, ids: Sequence[NDArray[np.int32]]) -> dict[str, torch.Tensor]:
        """`inputs` of texts given by their ids, each (n, length) int64 on the CPU, padded."""
        length = self.limit if self.padding == "max_length" else None
        padded = pad(ids, token=int(self._tokenizer.pad_token_id), side=self._tokenizer.padding_side, length=length)
        return {name: padded[name] for name in self.inputs}

    def __call__(self, texts: Sequence[str], device: str) -> dict[str, torch.Tensor]:
        """`inputs` of the texts, each (n, length) on `device`."""
        return {name: value.to(device) for name, value in self.collate(self.ids(texts)).items()}

    def values(self) -> dict[str, Any]:
        """Every setting as plain values, for the card; "vocabulary" is a hash over what decides the token ids."""
        return {
            "tokenizer": type(self._tokenizer).__name__.removesuffix("Fast"),
            "vocabulary": vocabulary_hash(self._tokenizer),
            "template": self.template,
            "max_length": self.limit,
            "padding": f"{self.padding}, {self._tokenizer.padding_side}",
            "lower_case": self.lower or self._ids("Ä photo OF a Cat") == self._ids("ä photo of a cat"),
        }

    def text_inputs(self) -> TextInputs | None:
        """The same ids without transformers; None for a tokenizer of which no other library does it all."""
        rules = TokenRules(
            names=self.inputs,
            limit=self.limit,
            padded=self.padding == "max_length",
            side=self._tokenizer.padding_side,
            padding=int(self._tokenizer.pad_token_id),
            template=self.template,
            cleaning="lower case" if self.lower else "",
        )
        return inputs_of_tokenizer(self._tokenizer, rules)

    def _filled(self, texts: Sequence[str]) -> list[str]:
        filled = [self.template.replace("{}", text) for text in texts]
        return [text.lower() for text in filled] if self.lower else filled

    def _counts(self, texts: Sequence[str]) -> list[int]:
        with self._lock:
            return token_counts(self._tokenizer, self._filled(texts))

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer(text)["input_ids"]
        return ids


def check_vocabulary(where: str, tokenizer: Any, rows: int | None) -> None:
    """Check that a model has a vector for every token of its tokenizer; tokens that were added later are not
    counted."""
    size = getattr(tokenizer, "vocab_size", None)
    if rows is not None and isinstance(size, int) and size > rows:
        raise EncoderError(
            f"{where}: its tokenizer has {size:,} tokens, and the model has vectors for {rows:,}.",
            hint="the tokenizer belongs to another model: fetch the files of the tokenizer again from where the model "
            "comes",
            code="tokenizer-tokens-model-vectors",
        )


def check_saved_tokenizer(model: Any, folders: Sequence[Path]) -> None:
    """Raise `EncoderError` where the tokenizer of a model of sentence-transformers does not lie with it."""
    # The library then has transformers make one of a few tokens, which gives vectors that mean nothing.
    if not getattr(model.tokenizer, "vocab_files_names", None):  # bytes need no vocabulary; no tokenizer has none
        return
    having = [any(any(folder.glob(pattern)) for pattern in TOKENIZER_FILES) for folder in folders]
    lacking = [folder for folder, has in zip(folders, having, strict=True)
               if not has and (folder / "tokenizer_config.json").is_file()]  # fmt: skip
    if lacking or not any(having):
        raise EncoderError(
            f"{(lacking or folders)[0]}: there is no tokenizer in this folder (none of {', '.join(TOKENIZER_FILES)}).",
            hint="save it beside the model: tokenizer.save_pretrained(folder)",
            code="no-tokenizer-folder-none",
        )


def pad(
    ids: Sequence[NDArray[np.int32]], *, token: int, side: str, length: int | None = None
) -> dict[str, torch.Tensor]:
    """ "input_ids" and "attention_mask" (1 where there is text) of a batch, each (n, L) int64."""
    import torch

    padded = padded_rows(ids, token=token, side=side, length=length)
    return {name: torch.from_numpy(rows) for name, rows in padded.items()}


def inputs_of_tokenizer(tokenizer: Any, rules: TokenRules) -> TextInputs | None:
    """The ids that a tokenizer of transformers gives, by other libraries alone."""
    from transformers import PreTrainedTokenizerFast

    if tokenizer.truncation_side != "right" or not type(tokenizer).__module__.startswith("transformers."):
        return None
    if type(tokenizer).__name__ == "SiglipTokenizer":
        added = tokenizer.added_tokens_decoder
        if tokenizer.sp_model_kwargs or any(token.single_word for token in added.values()):
            return None
        values = {
            "rules": asdict(rules),
            "marks": [[token.content, number, token.lstrip, token.rstrip] for number, token in added.items()],
            "unknown": str(tokenizer.unk_token),
            "end": int(tokenizer.eos_token_id),
            "lower": bool(tokenizer.do_lower_case),
        }
        return SiglipPieces(values, {MODEL: tokenizer.sp_model.serialized_model_proto()})
    own = [vars(kind) for kind in type(tokenizer).__mro__[: -len(PreTrainedTokenizerFast.__mro__)]]
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        return None
    if any(name in members for members in own for name in ("__call__", "_encode_plus", "_batch_encode_plus")):
        return None
    return FastTokens({"rules": asdict(rules)}, {TOKENIZER: tokenizer.backend_tokenizer.to_str().encode()})


def token_counts(tokenizer: Any, texts: Sequence[str], *, special: bool = True) -> list[int]:
    """How many tokens each text has before anything is cut, end tokens included unless `special` is False."""
    # Takes a tokenizer of transformers, whose state it changes: hold the lock.
    encoded = tokenizer(
        texts,
        add_special_tokens=special,
        padding=False,
        truncation=False,
        return_attention_mask=False,  # this and the next take a quarter of the time, and nobody looks at them
        return_token_type_ids=False,
        verbose=False,  # it would warn of texts that are longer than the model's limit, and that is the question here
    )
    return [len(tokens) for tokens in encoded["input_ids"]]


def vocabulary_hash(tokenizer: Any) -> str:
    """32 hexadecimal digits over what decides the token ids: vocabulary, merges, rules."""
    # Takes a tokenizer of transformers, fast or slow, or of the library `tokenizers` itself.
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not hasattr(backend, "to_str"):
        content: Any = [tokenizer.get_vocab(), getattr(tokenizer, "do_lower_case", None)]
    else:
        content = orjson.loads(backend.to_str())
        content = {key: value for key, value in content.items() if key not in ("truncation", "padding", "version")}
    return hashlib.blake2b(orjson.dumps(content, option=orjson.OPT_SORT_KEYS), digest_size=16).hexdigest()
