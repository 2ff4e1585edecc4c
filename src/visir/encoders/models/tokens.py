"""A `transformers` tokenizer with template, limit and padding declared: texts in, token ids out."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import orjson
from numpy.typing import NDArray

from visir.encoders.models.text_inputs import FastTokens, SiglipPieces, TextInputs, TokenRules, padded_rows
from visir.encoders.truncation import TextLimit
from visir.errors import EncoderError

if TYPE_CHECKING:
    import torch

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
        return _siglip_pieces(tokenizer, rules)
    own = [vars(kind) for kind in type(tokenizer).__mro__[: -len(PreTrainedTokenizerFast.__mro__)]]
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        return None
    if any(name in members for members in own for name in ("__call__", "_encode_plus", "_batch_encode_plus")):
        return None
    return FastTokens(tokenizer.backend_tokenizer.to_str().encode(), rules)


def _siglip_pieces(tokenizer: Any, rules: TokenRules) -> SiglipPieces | None:
    added = tokenizer.added_tokens_decoder
    if tokenizer.sp_model_kwargs or any(token.single_word for token in added.values()):
        return None
    return SiglipPieces(
        tokenizer.sp_model.serialized_model_proto(),
        rules,
        marks=[(token.content, number, token.lstrip, token.rstrip) for number, token in added.items()],
        unknown=str(tokenizer.unk_token),
        end=int(tokenizer.eos_token_id),
        lower=bool(tokenizer.do_lower_case),
    )


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
