"""Captions as ALBEF and X-VLM read them: without punctuation, cut to a number of words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from visir.encoders.models.tokens import Tokens, token_counts
from visir.errors import EncoderError
from visir.files import user_path
from visir.storage import Scratch

PUNCTUATION = ",.'!?\"()*#:;~"
_CHARACTERS = str.maketrans({**dict.fromkeys(PUNCTUATION, ""), "-": " ", "/": " "})
_VOCABULARIES = ("vocab.txt", "tokenizer.json")
_UNCASED = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": 512}


def plain_caption(text: str) -> str:
    """Lower case, without the marks of `PUNCTUATION`, hyphens and slashes as spaces, single spaces."""
    # "A man's T-shirt, blue!" becomes "a mans t shirt blue". COCO's and Flickr30k's placeholder "<person>" becomes the
    # word. X-VLM's own code refuses a caption of which nothing is left; here, as in ALBEF's, it is the empty text.
    text = text.lower().translate(_CHARACTERS).replace("<person>", "person")
    return re.sub(r"\s{2,}", " ", text).rstrip("\n").strip(" ")


def first_words(text: str, limit: int) -> str:
    """The first `limit` words of a plain caption; words are what stands between spaces."""
    return " ".join(text.split(" ")[:limit])


class CaptionTokens(Tokens):
    """BERT's uncased tokenizer over plain captions, without BERT's end token."""

    # The authors' own tokenizer puts [CLS] before a caption and nothing behind it, in training and in evaluation.
    # BERT's usual [SEP] there would be a token that the model has not seen in this place, and gives other vectors.

    def __init__(
        self,
        files: dict[str, bytes],
        *,
        vocabulary: int,
        positions: int,
        max_length: int,
        max_words: int,
        template: str,
    ) -> None:
        self.max_words = max_words
        with Scratch.temporary("tokenizer") as scratch:
            for name, content in files.items():
                scratch.file(f"files/{name}").write_bytes(content)
            folder = scratch.path / "files"
            super().__init__(folder, limit=positions, vocabulary=vocabulary, template=template, max_length=max_length)
        self._without_end()

    def values(self) -> dict[str, Any]:
        """Every setting as plain values, for the card."""
        return {
            **super().values(),
            "punctuation": f"without {PUNCTUATION}",
            "max_words": self.max_words,
            "ends": "[CLS]",
        }

    def _without_end(self) -> None:
        from tokenizers.processors import TemplateProcessing

        start = self._tokenizer.cls_token
        self._tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
            single=f"{start} $A", special_tokens=[(start, self._tokenizer.cls_token_id)]
        )

    def _filled(self, texts: Sequence[str]) -> list[str]:
        return [first_words(text, self.max_words) for text in self._plain(texts)]

    def _counts(self, texts: Sequence[str]) -> list[int]:
        plain = self._plain(texts)
        with self._lock:
            lengths = token_counts(self._tokenizer, plain)
        return [  # a text of too many words is too long, however few tokens it has
            length if text.count(" ") < self.max_words else max(length, self.limit + 1)
            for length, text in zip(lengths, plain, strict=True)
        ]

    def _plain(self, texts: Sequence[str]) -> list[str]:
        return [plain_caption(self.template.replace("{}", text)) for text in texts]


def find_vocabulary(name: str, vocabulary: str | None, checkpoint: Path) -> dict[str, bytes]:
    """The files of BERT's uncased tokenizer, by name."""
    # Of a folder the vocabulary alone is taken; lower-casing and lengths are those of the model.
    if vocabulary is not None:
        location = user_path(vocabulary)
        tried = [location] if location.is_file() else [location / file for file in _VOCABULARIES]
    else:
        folders = (checkpoint.parent, checkpoint.parent / "bert-base-uncased")
        tried = [folder / file for folder in folders for file in _VOCABULARIES]
    path = next((candidate for candidate in tried if candidate.is_file()), None)
    if path is None:
        raise EncoderError(
            f"{name}: there is no vocabulary ({', '.join(map(str, tried))}).",
            hint="put vocab.txt of bert-base-uncased beside the checkpoint, or name it: ?tokenizer=FILE or FOLDER",
            code="no-vocabulary",
        )
    file_name = "tokenizer.json" if path.suffix == ".json" else "vocab.txt"
    return {file_name: path.read_bytes(), "tokenizer_config.json": orjson.dumps(_UNCASED)}
