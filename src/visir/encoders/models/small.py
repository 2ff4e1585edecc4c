"""Captions as ALBEF and X-VLM read them: without punctuation, cut to a number of words."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from visir.encoders.base import Encoder
from visir.encoders.checkpoints import read_description, write_description
from visir.encoders.forms import one_each
from visir.encoders.intake import InputBatch, pieces
from visir.encoders.models.text_inputs import TextInputs, Tokens, token_counts
from visir.errors import EncoderError
from visir.files import user_path
from visir.fingerprint import hash_columns
from visir.parquet import read_table
from visir.records import EncoderCard, Role
from visir.storage import Scratch
from visir.storage.disk import below

if TYPE_CHECKING:
    import torch

    from visir.encoders.towers.base import TextSide


# Bag of words: texts to weighted word counts. Deterministic, nothing to download.

HASHED_DIMENSION = 4096
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_TABLE = "vocabulary.parquet"


def words(text: str) -> list[str]:
    """The lower-cased words of a text: runs of letters and digits of any script, inner apostrophes included.

    "A dog's ball, 2 cats" gives a, dog's, ball, 2, cats. In scripts without spaces between words (Chinese, Thai) the
    words are single characters and pairs of neighbours.
    """
    runs = _WORD.findall(text.lower())
    return runs if text.isascii() else [word for run in runs for word in pieces(run)]


class BagOfWords(Encoder):
    """`load("bow")`: hashed words. `BagOfWords.fit(texts)`: a fitted vocabulary, kept inside checkpoints."""

    # The weight of a word in a text is (1 + ln count) · idf, and every vector has length 1; a text without a known word
    # is the zero vector. A fitted bag drops words it has not seen; a hashed one has no idf (idf = 1) and a sign per
    # word, so that words that share a place do not add up on average.

    batch_size = 1024

    def __init__(self, vocabulary: Sequence[str] | None, weights: NDArray[np.float32] | None, dimension: int) -> None:
        self._columns = None if vocabulary is None else {word: column for column, word in enumerate(vocabulary)}
        self._idf = weights
        self.dimension = dimension
        self.modalities = frozenset({"text"})
        hashed = vocabulary is None
        self.card = EncoderCard(
            name=f"bow:{dimension}" if hashed else "bow (fitted)",
            family="bag-of-words",
            revision="1" if hashed else None,
            weights=None if hashed else hash_columns([pa.array(vocabulary), pa.array(weights)], sort=False),
            text_preprocessing={
                "words": _WORD.pattern,
                "unspaced scripts": "characters and pairs",
                "case": "lower",
                "places": "signed blake2b" if hashed else "vocabulary",
                "weighting": "1 + ln(count)" if hashed else "(1 + ln(count)) * idf",
                "length": 1,
                "dimension": dimension,
            },
        )

    @classmethod
    def fit(cls, texts: Iterable[str], *, limit: int = 8192, least: int = 2) -> BagOfWords:
        """The `limit` most frequent words that occur in at least `least` of the texts (equally frequent: by
        alphabet)."""
        # idf = ln((1 + texts) / (1 + texts with the word)) + 1, the smoothed form of scikit-learn's `TfidfVectorizer`;
        # the textbook's ln(texts / texts with the word) would give a word of every caption the weight 0. Fit on the
        # training split only: the vocabulary is part of what is learnt.
        counts: Counter[str] = Counter()
        total = 0
        for text in texts:
            counts.update(set(words(text)))
            total += 1
        chosen = sorted(
            (entry for entry in counts.items() if entry[1] >= least), key=lambda entry: (-entry[1], entry[0])
        )[:limit]
        if not chosen:
            raise EncoderError(
                f"no word occurs in {least} of the {total} texts.",
                hint="lower `least`, or add texts",
                code="no-word-occurs-texts",
            )
        frequency = np.array([count for _, count in chosen], dtype=np.float64)
        idf = (np.log((1 + total) / (1 + frequency)) + 1).astype(np.float32)
        return cls([word for word, _ in chosen], idf, len(chosen))

    def forward(self, batch: InputBatch, role: Role) -> NDArray[np.float32]:
        """(n, dimension); rows of length 1 or 0."""
        texts: Sequence[str] = batch.texts or ()
        result = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in zip(result, texts, strict=True):
            for word, count in Counter(words(text)).items():
                weight = 1.0 + np.log(count)
                if self._columns is None:
                    hashed, sign = _hashed(word, self.dimension)
                    row[hashed] += sign * weight
                elif (column := self._columns.get(word)) is not None and self._idf is not None:
                    row[column] = weight * self._idf[column]
            length = np.linalg.norm(row)
            if length > 0:
                row /= length
        return result

    def text_lengths(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """All equal: nothing is padded here."""
        return np.zeros(len(texts), np.int64)

    def text_side(self) -> TextSide:
        """See `TextSide`: the vectors are inputs already, of a head behind them."""
        import torch

        from visir.encoders.towers.base import OneInput, TextSide

        def inputs(texts: Sequence[str]) -> dict[str, torch.Tensor]:
            return {"words": torch.from_numpy(one_each(self.embed_texts(texts), self.label))}

        return TextSide(OneInput("words"), WordInputs(self), inputs)

    def files(self) -> dict[str, bytes]:
        """The vocabulary of a fitted bag (Parquet: word, idf)."""
        if self._columns is None or self._idf is None:
            return {}
        stream = BytesIO()
        pq.write_table(pa.table({"word": list(self._columns), "idf": self._idf}), stream)
        return {_TABLE: stream.getvalue()}

    def save(self, folder: Path) -> None:
        """Write the vocabulary and `visir.json` into `folder`."""
        vocabulary = {}
        for name, content in self.files().items():
            (folder / name).write_bytes(content)
            vocabulary = {"vocabulary": name}
        write_description(folder, "bag-of-words", {**vocabulary, "dimension": self.dimension})

    @classmethod
    def read(cls, table: Path | None, dimension: int) -> BagOfWords:
        """The bag of a table that `files` made; None for hashed words."""
        if table is None:
            return cls(None, None, dimension)
        columns = read_table(table)
        return cls(columns["word"].to_pylist(), columns["idf"].to_numpy(), columns.num_rows)


class WordInputs(TextInputs):
    """The vectors of a bag of words, as inputs of a text network: "words" (n, dimension)."""

    kind = "words"
    names = ("words",)

    def __init__(self, bag: BagOfWords) -> None:
        files = bag.files()
        super().__init__({"dimension": bag.dimension, "fitted": bool(files)}, files)
        self._bag = bag

    def __call__(self, texts: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """The vectors of n texts."""
        return {"words": one_each(self._bag.embed_texts(texts), self._bag.label)}

    @classmethod
    def read(cls, values: Mapping[str, Any], folder: Path) -> Self:
        """From values and vocabulary."""
        return cls(BagOfWords.read(folder / _TABLE if values["fitted"] else None, int(values["dimension"])))


def load_family(name: str, device: str | None, dtype: str, revision: str | None) -> BagOfWords:
    """`bow` or `bow:DIMENSION`."""
    _, _, dimension = name.partition(":")
    if dimension and not (dimension.isdecimal() and int(dimension) > 0):
        raise EncoderError(
            f"{name}: after the colon comes the number of dimensions.",
            hint="e.g. bow:2048",
            code="after-colon-comes-number",
        )
    return BagOfWords(None, None, int(dimension or HASHED_DIMENSION))


def load_checkpoint(folder: Path, device: str | None, dtype: str) -> BagOfWords:
    """Read what `BagOfWords.save` wrote."""
    description = read_description(folder)
    table = below(folder, description["vocabulary"]) if "vocabulary" in description else None
    return BagOfWords.read(table, int(description["dimension"]))


@lru_cache(maxsize=1 << 18)
def _hashed(word: str, dimension: int) -> tuple[int, float]:
    digest = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    number = int.from_bytes(digest, "little")
    return (number >> 1) % dimension, 1.0 if number & 1 else -1.0


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
        from tokenizers.processors import TemplateProcessing

        start = self._tokenizer.cls_token
        self._tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
            single=f"{start} $A", special_tokens=[(start, self._tokenizer.cls_token_id)]
        )

    def values(self) -> dict[str, Any]:
        """Every setting as plain values, for the card."""
        return {
            **super().values(),
            "punctuation": f"without {PUNCTUATION}",
            "max_words": self.max_words,
            "ends": "[CLS]",
        }

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
