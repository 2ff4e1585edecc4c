"""A recurrent network over word embeddings."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from visir.encoders.intake import UNSPACED
from visir.encoders.towers.base import LENGTHS, Backbone, Inputs, TowerReader
from visir.errors import EncoderError
from visir.files import open_binary, read_lines

# A gated recurrent unit on the CPU, nearly twice as fast as `torch.nn.GRU` there, over texts of any lengths.


class Packing:
    """Sequences of (n,) `lengths`, at least 1, laid out step after step; within a step, the longest sequence first."""

    # So the sequences that still run are always the first ones, and no step computes padding.

    def __init__(self, lengths: Tensor) -> None:
        order = torch.argsort(lengths, descending=True, stable=True)
        falling = lengths[order]
        self.count, self.steps = len(lengths), int(falling[0])
        running = torch.arange(self.steps)[:, None] < falling  # (L, n)
        sizes = running.sum(1)
        self.sizes: list[int] = sizes.tolist()
        starts = sizes.cumsum(0) - sizes
        self.times, ranks = running.nonzero(as_tuple=True)
        self.rows = order[ranks]
        self.mirror = starts[falling[ranks] - 1 - self.times] + ranks
        self.ends = torch.empty_like(order)
        self.ends[order] = starts[falling - 1] + torch.arange(self.count)

    def padded(self, states: Tensor) -> Tensor:
        """(T, d) states to (n, L, d), zero behind each sequence's end."""
        padded = states.new_zeros(self.count, self.steps, states.shape[1])
        return padded.index_put((self.rows, self.times), states)


def run_packed(gru: nn.GRU, inputs: Tensor, rows: Tensor, packing: Packing) -> tuple[Tensor, Tensor]:
    """What `gru` (batch first) computes: the states (T, directions · hidden), and each direction's last (n, the same).

    `inputs` are (m, words) distinct inputs, of which `rows` (T,) says which one stands at each place of the layout.
    A direction's last state is the one at its own end: the backward one's is at the first word, after all of them.
    """
    outputs: list[Tensor] = []
    last: list[Tensor] = []
    for layer in range(gru.num_layers):
        if layer:
            inputs, rows = torch.cat(outputs, 1), torch.arange(len(packing.rows))
        outputs, last = [], []
        for suffix in ("", "_reverse")[: 1 + gru.bidirectional]:
            projected = nn.functional.linear(
                inputs, getattr(gru, f"weight_ih_l{layer}{suffix}"), getattr(gru, f"bias_ih_l{layer}{suffix}")
            )
            gates = projected.index_select(0, rows[packing.mirror] if suffix else rows)
            recurrent = getattr(gru, f"weight_hh_l{layer}{suffix}"), getattr(gru, f"bias_hh_l{layer}{suffix}")
            states = _Recurrence.apply(gates, *recurrent, packing.sizes)
            outputs.append(states[packing.mirror] if suffix else states)
            last.append(states[packing.ends])
    return torch.cat(outputs, 1), torch.cat(last, 1)


class _Recurrence(torch.autograd.Function):
    """One direction: (T, 3h) projected inputs to (T, h) states, beginning from zero."""

    # With x the projected input and y = W h + b of the state before, each in thirds for reset, update and new: r =
    # σ(x_r + y_r), z = σ(x_z + y_z), n = tanh(x_n + r y_n), h' = n + z (h - n); the variant of `torch.nn.GRU` (and of
    # cuDNN), where the reset gate multiplies y_n, not the state before the product as in Cho et al. 2014.

    @staticmethod
    def forward(ctx: Any, gates: Tensor, weight: Tensor, bias: Tensor, sizes: list[int]) -> Tensor:
        width = weight.shape[1]
        states, opened = gates.new_empty(len(gates), width), gates.new_empty(len(gates), 2 * width)
        new, fed = torch.empty_like(states), torch.empty_like(states)  # n and y_n
        state, start = gates.new_zeros(sizes[0], width), 0
        for size in sizes:
            here = slice(start, start := start + size)
            state = state[:size]
            product = torch.addmm(bias, state, weight.t())
            r_z = torch.add(gates[here, : 2 * width], product[:, : 2 * width], out=opened[here]).sigmoid_()
            fed[here] = product[:, 2 * width :]
            n = torch.addcmul(gates[here, 2 * width :], r_z[:, :width], fed[here], out=new[here]).tanh_()
            state = torch.lerp(n, state, r_z[:, width:], out=states[here])
        ctx.save_for_backward(weight, states, opened, new, fed)
        ctx.sizes = sizes
        return states

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        weight, states, opened, new, fed = ctx.saved_tensors
        sizes: list[int] = ctx.sizes
        width = weight.shape[1]
        slope = states.new_empty(len(states), 3 * width)  # of the loss, by r, z and n before their activations
        slope_fed = torch.empty_like(states)  # by y_n
        before = torch.zeros_like(states)  # the state that each step began from
        flowing = states.new_zeros(sizes[0], width)
        product = states.new_empty(sizes[0], 3 * width)
        stop = len(states)
        for step in reversed(range(len(sizes))):
            size = sizes[step]
            here = slice(stop - size, stop)
            stop -= size
            if step:
                begin = stop - sizes[step - 1]
                before[here] = states[begin : begin + size]
            r, z = opened[here, :width], opened[here, width:]
            d_state = flowing[:size].add_(upstream[here])  # those that end here begin from zero
            d_n = torch.addcmul(d_state, d_state, z, value=-1) * (1 - new[here].square())
            slope[here, 2 * width :] = d_n
            torch.mul(d_n * fed[here], r * (1 - r), out=slope[here, :width])
            torch.mul(d_state * (before[here] - new[here]), z * (1 - z), out=slope[here, width : 2 * width])
            torch.mul(d_n, r, out=slope_fed[here])
            if step:
                product[:size, : 2 * width] = slope[here, : 2 * width]
                product[:size, 2 * width :] = slope_fed[here]
                d_state.mul_(z).addmm_(product[:size], weight)
        of_weight = torch.empty_like(weight)
        torch.mm(slope[:, : 2 * width].t(), before, out=of_weight[: 2 * width])
        torch.mm(slope_fed.t(), before, out=of_weight[2 * width :])
        of_bias = torch.cat([slope[:, : 2 * width].sum(0), slope_fed.sum(0)])
        return slope, of_weight, of_bias, None


# Words and their numbers: a tokeniser for captions, and the vocabulary of a recurrent tower.

PADDING, UNKNOWN, START, END = range(4)
SPECIAL = 4
"""The ids below this are no words: padding, the unknown word, and the two marks around a sentence to be decoded."""

_WORD = re.compile(
    rf"(?=[{UNSPACED}])[^\W_]"  # 女|人
    rf"|[^\W_{UNSPACED}]+?(?=n't(?!\w))|n't(?!\w)"  # do|n't, is|n't
    r"|(?<=\w)'(?:s|re|ve|ll|d|m)(?!\w)"  # dog|'s, they|'re
    rf"|[^\W_{UNSPACED}]+"
)
TOKENISER = (
    "lower case; runs of letters and digits; 's, n't, 're, 've, 'll, 'd, 'm apart; no punctuation; "
    "single characters of scripts without spaces"
)
"""What `tokenise` does, in words, for the card."""


def tokenise(text: str) -> list[str]:
    """The words of a text, in lower case: runs of letters and digits, clitics apart."""
    # Where a script has no spaces between words (Chinese, Japanese, Thai), every character is a word: a run would be a
    # phrase that occurs once.
    # "The dog's ball isn't red." gives the, dog, 's, ball, is, n't, red. Clitics stand apart as in the Penn Treebank,
    # because GloVe's vocabularies were made that way. Punctuation is dropped: VSE++'s released code, with NLTK's
    # tokeniser, keeps it, so that nearly every caption of COCO ends in the word "."; and a hyphen parts words (t,
    # shirt), where NLTK keeps them together and most such compounds end up unknown. It is one regular expression, some
    # 10 µs for a caption.
    return _WORD.findall(text.lower().replace("’", "'"))


class WordVocabulary:
    """Words in a fixed order; the word at place i has the id i + 4, after padding 0, unknown 1, start 2, end 3."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = tuple(words)
        self._ids = {word: number for number, word in enumerate(self.words, SPECIAL)}
        if len(self._ids) != len(self.words):
            twice = next(word for word, count in Counter(self.words).items() if count > 1)
            raise EncoderError(
                f"a vocabulary holds every word once; {twice!r} is there more than once.",
                code="vocabulary-holds-every-word",
            )

    def __len__(self) -> int:
        """The number of ids, the four that are no words included."""
        return SPECIAL + len(self.words)

    @classmethod
    def fit(cls, texts: Iterable[str], min_count: int = 1, limit: int | None = None) -> WordVocabulary:
        """The words that occur at least `min_count` times in all, the most frequent first (equals: by alphabet).

        Fit on the training split only. `limit` keeps that many at most.

        Raises:
            EncoderError: No word is left.
        """
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(tokenise(text))
        chosen = sorted(
            (entry for entry in counts.items() if entry[1] >= min_count), key=lambda entry: (-entry[1], entry[0])
        )
        if not chosen:
            if not counts:
                raise EncoderError(
                    "there is not one word in all the texts.", hint="are the captions empty?", code="not-one-word-texts"
                )
            raise EncoderError(f"no word occurs {min_count} times in the texts.", hint="lower min_count")
        return cls([word for word, _ in chosen[:limit]])

    def encode(self, texts: Iterable[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """All ids in one array, and offsets: text i has `flat[offsets[i]:offsets[i + 1]]`.

        A word that is not in the vocabulary is the unknown word; so is the whole of a text without any word, which
        would otherwise have nothing for a network to read.
        """
        find = self._ids.get
        flat: list[int] = []
        offsets = [0]
        for text in texts:
            flat.extend([find(word, UNKNOWN) for word in tokenise(text)] or [UNKNOWN])
            offsets.append(len(flat))
        return np.array(flat, np.int32), np.array(offsets, np.int64)

    def to_bytes(self) -> bytes:
        """One word per line, UTF-8."""
        return "".join(f"{word}\n" for word in self.words).encode()

    @classmethod
    def load(cls, path: Path) -> WordVocabulary:
        """Read a file of `to_bytes`."""
        return cls(read_lines(path))


# Files of word vectors: GloVe's text format, and word2vec's.

SOURCE = "https://nlp.stanford.edu/projects/glove/"
_BROKEN = "is the download complete? compare its size"


@dataclass(frozen=True, eq=False)
class WordVectors:
    """The vectors of some words, in their order."""

    vectors: NDArray[np.float32]  # (words, d) float32; zeros where a word has no vector
    has_vector: NDArray[np.bool_]  # (words,) whether the file has a vector of the word


def read_vectors(path: str | Path, words: Sequence[str], width: int) -> WordVectors:
    """The vectors of `words` in a text file of lines `word v1 … v_width`, plain, `.gz` or `.xz`, in UTF-8."""
    # Only the lines of these words are parsed, so that GloVe's 2.2 million take as long as reading them does. The word
    # is what is left of the last `width` numbers: a few hundred tokens of glove.840B hold spaces. Of a word that comes
    # twice the first vector is taken. A first line of two integers, as word2vec writes it, is passed over.
    if not Path(path).is_file():
        raise EncoderError(
            f"{path}: no such file of word vectors.",
            hint=f"download glove.6B.zip or glove.840B.300d.zip from {SOURCE}, unpack it, and name the file "
            "(text.vectors), or leave it out to learn the embeddings",
            code="no-such-file-word",
        )
    row_of = {word.encode(): row for row, word in enumerate(words)}
    vectors, has_vector = np.zeros((len(words), width), np.float32), np.zeros(len(words), bool)
    with open_binary(path) as stream:
        for number, line in enumerate(stream, 1):
            word = line[: line.find(b" ")]
            if number == 1 and _is_header(path, line, width):
                continue
            if not word.isascii():
                try:
                    word.decode()
                except UnicodeDecodeError as fault:
                    raise EncoderError(
                        f"{path}, line {number}: not UTF-8 (byte 0x{word[fault.start]:02x}).",
                        hint="is this a text file of word vectors? convert it: iconv -f latin1 -t utf-8",
                    ) from fault
            # Nearly every line is of none of our words: one look-up decides.
            row = row_of.get(word)
            if row is not None and not has_vector[row]:
                vector = _parse(path, number, line, width)
                if vector is not None:
                    vectors[row], has_vector[row] = vector, True
    if not has_vector.any():
        raise EncoderError(
            f"{path}: holds none of the {len(words):,} words.", hint="is it of this language, and in lower case?"
        )
    return WordVectors(vectors, has_vector)


def _is_header(path: str | Path, line: bytes, width: int) -> bool:
    """Whether the first line is word2vec's count and width; refuses a file of another width."""
    parts = line.split()
    header = len(parts) == 2 and parts[0].isdigit() and parts[1].isdigit()
    numbers = int(parts[1]) if header else len(line.rstrip().split(b" ")) - 1
    if numbers != width:
        raise EncoderError(
            f"{path}, line 1: vectors of {numbers} numbers; the embeddings have {width}.",
            hint=f"set the width of the embeddings to {numbers} (text.words), or take another file",
            code="vectors-numbers",
        )
    return header


def _parse(path: str | Path, number: int, line: bytes, width: int) -> NDArray[np.float32] | None:
    """The vector of a line that begins with a word of ours; None when its word goes on behind a space."""
    parts = line.rstrip().split(b" ")[1:]
    if len(parts) > width and not _is_number(parts[0]):
        return None
    if len(parts) != width:
        raise EncoderError(f"{path}, line {number}: {len(parts)} numbers, not {width}.", hint=_BROKEN)
    try:
        vector = np.array([float(part) for part in parts])
    except ValueError:
        vector = np.array(np.nan)
    if not np.isfinite(vector).all():
        wrong = next(part for part in parts if not _is_number(part)).decode(errors="replace")
        raise EncoderError(f"{path}, line {number}: {wrong!r} is no finite number.", hint=_BROKEN)
    return vector.astype(np.float32)


def _is_number(text: bytes) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


VOCABULARY_FILE = "vocabulary.txt"


def _collate(prepared: Sequence[Any]) -> dict[str, Tensor]:
    """`ids` (n, L) int64, padded with 0 to the longest, and `lengths` (n,) int64."""
    lengths = np.array([len(ids) for ids in prepared], np.int64)
    ids = np.full((len(prepared), lengths.max(initial=1)), PADDING, np.int64)
    for row, sequence in zip(ids, prepared, strict=True):
        row[: len(sequence)] = sequence
    return {"ids": torch.from_numpy(ids), LENGTHS: torch.from_numpy(lengths)}


class GRUBackbone(Backbone):
    """Word embeddings, then a gated recurrent unit (Cho et al. 2014), then one vector per text.

    Each direction is read to its own end: the backward one's last state stands at the first word. The code that was
    released with LTD takes the state at the last word for both, where the backward direction has seen one word only;
    half of the vector then says little more than how the caption ends.

    A text's vector does not depend on what it is batched with, beyond rounding. A text without a word is read as one
    unknown word. Nothing marks a sentence's start and end; VSE++'s code adds two words for that.

    Args:
        words: Width of the embeddings.
        hidden: Of the states; `outputs` is `hidden`, twice that when `bidirectional`.
        layers: One over the other, each over both directions of the one below.
        pooling: The "last" state of each direction, or the "mean" or the "max" of every dimension over all states.
    """

    kind = "gru"

    def __init__(
        self,
        vocabulary: WordVocabulary,
        *,
        words: int = 300,
        hidden: int = 1024,
        bidirectional: bool = True,
        layers: int = 1,
        pooling: Literal["last", "mean", "max"] = "last",
    ) -> None:
        super().__init__(
            TowerReader(
                self.kind,
                "text",
                prepare=lambda texts: [vocabulary.encode([text])[0] for text in texts],  # at least one id
                collate=_collate,
                values=lambda: {"words": TOKENISER, "vocabulary": len(vocabulary)},
            )
        )
        self.vocabulary = vocabulary
        self.pooling = pooling
        self.outputs = hidden * (2 if bidirectional else 1)
        self.embedding = nn.Embedding(len(vocabulary), words, padding_idx=PADDING)
        with torch.no_grad():
            self.embedding.weight[PADDING + 1 :].uniform_(-0.1, 0.1)  # as VSE++ begins
        self.gru = nn.GRU(words, hidden, layers, batch_first=True, bidirectional=bidirectional)
        self._from_file = False

    def read_vectors(self, path: str | Path) -> int:
        """Take the embeddings of all words that a file of word vectors holds; returns how many were found.

        The others begin at random, with the mean and the deviation that each dimension has over those found.

        Raises:
            EncoderError: As `visir.encoders.towers.gru.read_vectors` does.
        """
        pretrained = read_vectors(path, self.vocabulary.words, self.embedding.embedding_dim)
        has_vector = torch.from_numpy(
            np.concatenate([np.zeros(len(self.vocabulary) - len(pretrained.has_vector), bool), pretrained.has_vector])
        )
        vectors = torch.from_numpy(pretrained.vectors[pretrained.has_vector])
        with torch.no_grad():
            spread = torch.randn(len(has_vector) - PADDING - 1, vectors.shape[1]) * vectors.std(0, correction=0)
            self.embedding.weight[PADDING + 1 :] = vectors.mean(0) + spread
            self.embedding.weight[has_vector] = vectors
        self._from_file = True
        return int(pretrained.has_vector.sum())

    def forward(self, inputs: Inputs) -> Tensor:
        """(n, outputs); `lengths` on the CPU, wherever `ids` are."""
        if isinstance(inputs, Tensor):
            raise EncoderError("a GRU takes word ids and lengths, not one tensor.")
        ids, lengths = inputs["ids"], inputs[LENGTHS]
        # Under autocast the products are to be in the lower precision, and that is torch's own business.
        if ids.device.type == "cpu" and not torch.is_autocast_enabled("cpu"):
            last, padded = self._on_cpu(ids, lengths)
        else:
            last, padded = self._by_torch(ids, lengths)
        if padded is None:
            return last
        lengths = lengths.to(ids.device, non_blocking=True)
        inside = (torch.arange(padded.shape[1], device=ids.device) < lengths[:, None]).unsqueeze(-1)
        if self.pooling == "mean":
            return padded.sum(1) / lengths[:, None]  # zero behind the ends
        return padded.masked_fill(~inside, -torch.inf).amax(1)

    def _on_cpu(self, ids: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor | None]:
        packing = Packing(lengths)
        distinct, rows = torch.unique(ids[packing.rows, packing.times], return_inverse=True)
        states, last = run_packed(self.gru, self.embedding(distinct), rows, packing)
        return last, None if self.pooling == "last" else packing.padded(states)

    def _by_torch(self, ids: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor | None]:
        # Sorted here: `pack_padded_sequence` would wait for the device until it has taken the order.
        falling, order = lengths.sort(descending=True, stable=True)
        order = order.to(ids.device, non_blocking=True)
        back = order.argsort()
        words = self.embedding(ids.index_select(0, order))
        states, ends = self.gru(nn.utils.rnn.pack_padded_sequence(words, falling, batch_first=True))
        directions = 1 + self.gru.bidirectional
        last = ends[-directions:].transpose(0, 1).reshape(len(ids), -1).index_select(0, back)
        if self.pooling == "last":
            return last, None
        return last, nn.utils.rnn.pad_packed_sequence(states, batch_first=True)[0].index_select(0, back)

    def spec(self) -> dict[str, Any]:
        """The settings; the words themselves are in `vocabulary.txt`."""
        return {
            "words": self.embedding.embedding_dim,
            "hidden": self.gru.hidden_size,
            "bidirectional": self.gru.bidirectional,
            "layers": self.gru.num_layers,
            "pooling": self.pooling,
        }

    def files(self) -> dict[str, bytes]:
        """The words."""
        return {VOCABULARY_FILE: self.vocabulary.to_bytes()}

    @classmethod
    def load(cls, folder: Path, spec: Mapping[str, Any]) -> Self:
        """See `Backbone.load`."""
        return cls(WordVocabulary.load(folder / VOCABULARY_FILE), **spec)

    def pretrained_modules(self) -> Sequence[nn.Module]:
        """The embeddings, when they were read from a file."""
        return (self.embedding,) if self._from_file else ()
