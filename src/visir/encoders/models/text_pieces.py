"""Token ids of SigLIP's first tokenizer, which is code in Python over SentencePiece: the same steps by that alone."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from visir.encoders.models.text_tokens import TokenInputs, TokenRules, rules_of

MODEL = "spiece.model"
_SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # how SentencePiece writes a space
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


class SiglipPieces(TokenInputs):
    """What `transformers.SiglipTokenizer` does: marks split off, lower case, no punctuation, pieces, an end mark."""

    kind = "siglip"

    def __init__(
        self,
        model: bytes,
        rules: TokenRules,
        *,
        marks: Sequence[tuple[str, int, bool, bool]],
        unknown: str,
        end: int,
        lower: bool,
    ) -> None:
        from sentencepiece import SentencePieceProcessor

        super().__init__(rules)
        self._content, self._unknown, self._end, self._lower = model, unknown, end, lower
        self._model = SentencePieceProcessor(model_proto=model)
        self._skipped = len(self._model.encode(unknown))
        self._marks = {content: (number, left, right) for content, number, left, right in marks}
        longest_first = sorted(self._marks, key=len, reverse=True)
        self._splitting = re.compile(f"({'|'.join(map(re.escape, longest_first))})")

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The token ids of each text."""
        return [self._cut(self._ids(text)) for text in texts]

    def values(self) -> dict[str, Any]:
        """The rules, and those of the tokenizer."""
        marks = [[content, *facts] for content, facts in self._marks.items()]
        return {**super().values(), "marks": marks, "unknown": self._unknown, "end": self._end, "lower": self._lower}

    def files(self) -> dict[str, bytes]:
        """The model of SentencePiece."""
        return {MODEL: self._content}

    @classmethod
    def read(cls, values: Mapping[str, Any], folder: Path) -> Self:
        """From the values and the model's file."""
        own = {name: values[name] for name in ("marks", "unknown", "end", "lower")}
        return cls((folder / MODEL).read_bytes(), rules_of(values), **own)

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
