"""What an encoder returns becomes an (n, d) float32 array, or an error that says what was returned and expected.

The output of every encoder passes here: `Encoder` wraps the `forward` of its subclasses. What encoders of form
"multi-vector" return becomes `TokenVectors`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from visir.errors import EncoderError, VisirError
from visir.records import Modality, TokenVectors
from visir.records.columns import as_array

if TYPE_CHECKING:
    from PIL.Image import Image


# How much of a text a model reads, and room for an ending: texts cut until they are read whole with it.

_WORD = re.compile(r"\S+")
_AT_ONCE = 1024
Value = TypeVar("Value")


@dataclass(frozen=True)
class TextLimit:
    """How many tokens of a text a model reads."""

    tokens: int  # the limit
    # From texts to the number of tokens of each before anything is cut. Template and end tokens count where they count
    # for the limit.
    count: Callable[[Sequence[str]], Sequence[int]]

    def fits(self, texts: Sequence[str]) -> list[bool]:
        """Whether the model reads all of each text."""
        return [count <= self.tokens for count in self.count(texts)]

    def truncate(self, texts: Sequence[str], ending: str) -> list[str]:
        """The texts, each cut word by word from its end so that f"{text} {ending}" is read whole. Thread-safe."""
        return truncate_texts(texts, ending, self.fits, limit=self.tokens)


def truncate_texts(
    texts: Sequence[str], ending: str, fits: Callable[[list[str]], Sequence[bool]], *, limit: int
) -> list[str]:
    """The texts, each cut so that f"{text} {ending}" fits; one that fits already is returned as it is."""
    # Words are what stands between white space. As many as possible are kept from the start of a text, with the space
    # between them; a text may become empty. A long text without white space (Chinese, Thai) is one word: it is kept
    # whole or not at all. The other reading, cutting the token ids instead, keeps up to one word more, but then the
    # text that was encoded cannot be shown or given to another model.
    # The search towers the number of words, for all texts in one call: about log2(words) + 1 calls per 1,024 texts. A
    # tokenizer for which a longer text has fewer tokens could make it stop early; what it returns fits in any case.

    def whole(heads: list[str]) -> Sequence[bool]:
        return fits([f"{head} {ending}" for head in heads])

    result = list(texts)
    too_long = [row for row, fit in enumerate(in_blocks(whole, result)) if not fit]
    if not too_long:
        return result
    if not all(whole([""])):
        raise EncoderError(
            f"max_length={limit} is too small: the ending {ending!r} does not fit, even after an empty text.",
            hint="a larger max_length in the encoder's name, a shorter template, "
            "or shortcuts on the images alone (on=images)",
            code="ending-not-fit-even",
        )
    ends = [_ends(result[row]) for row in too_long]
    lasts = last_fitting([result[row] for row in too_long], ends, whole)
    for row, places, last in zip(too_long, ends, lasts, strict=True):
        result[row] = result[row][: places[last]]
    return result


def last_fitting(
    texts: Sequence[str], ends: Sequence[Sequence[int]], fits: Callable[[list[str]], Sequence[bool]]
) -> list[int]:
    """For each text, the last of the places where it may be cut so that what is before it fits."""
    # texts: (n,) texts that do not fit whole.
    # Returns: (n,) the number of a place in `ends`; 0 where nothing fits.
    fitting, failing = [0] * len(texts), [len(places) - 1 for places in ends]
    while unsettled := [row for row in range(len(texts)) if failing[row] - fitting[row] > 1]:
        middles = [(fitting[row] + failing[row]) // 2 for row in unsettled]
        heads = [texts[row][: ends[row][middle]] for row, middle in zip(unsettled, middles, strict=True)]
        for row, middle, fit in zip(unsettled, middles, in_blocks(fits, heads), strict=True):
            (fitting if fit else failing)[row] = middle
    return fitting


def in_blocks(function: Callable[[list[str]], Sequence[Value]], texts: Sequence[str]) -> list[Value]:
    """What a function says of each of many texts, called with at most 1,024 of them, so that memory stays bounded."""
    blocks = (list(texts[start : start + _AT_ONCE]) for start in range(0, len(texts), _AT_ONCE))
    return [value for block in blocks for value in function(block)]


def _ends(text: str) -> list[int]:
    """Where a text may be cut, ascending: before it, behind every word, behind all of it ("a bc " gives 0, 1, 4, 5)."""
    ends = [0, *(word.end() for word in _WORD.finditer(text))]
    return ends if ends[-1] == len(text) else [*ends, len(text)]


Pixels = NDArray[Any]
"""One preprocessed image, in whatever shape and type the model's forward pass takes (usually float32 (3, H, W))."""


def valid_pictures(pictures: Iterable[Image]) -> list[Image]:
    """Return the pictures as a list."""
    from PIL.Image import Image

    files = "visir.encode(model, files) reads files; or open each: PIL.Image.open(file)"
    if isinstance(pictures, Image):
        raise EncoderError("a list of pictures is wanted, not one picture.", hint="put it in a list: [picture]")
    if isinstance(pictures, str | Path):
        raise EncoderError(f"a list of pictures is wanted, not {str(pictures)!r}.", hint=files)
    if isinstance(pictures, Mapping | bytes) or not isinstance(pictures, Iterable):
        raise EncoderError(
            f"a list of pictures is wanted, not {type(pictures).__name__}.", hint="e.g. [PIL.Image.open(file)]"
        )
    pictures = list(pictures)
    for number, picture in enumerate(pictures):
        if not isinstance(picture, Image):
            is_file = isinstance(picture, str | Path)
            raise EncoderError(
                f"number {number:,} of the pictures is {repr(str(picture)) if is_file else type(picture).__name__}, "
                "no picture of PIL.",
                hint=files if is_file else "PIL.Image.fromarray(array), or PIL.Image.open(io.BytesIO(data))",
            )
    return pictures


# Scripts that put no spaces between words: there, what stands between spaces is a phrase, and characters are units.

UNSPACED = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""Thai, Lao, Burmese, Khmer, kana and Chinese characters, as the inside of a class of a regular expression. Korean has
spaces."""
_RUN = re.compile(rf"[{UNSPACED}]+")


def pieces(word: str) -> list[str]:
    """The single characters of a run of such a script, and its pairs of neighbours; another word as it is."""
    # Pairs are what search engines index in these scripts: most Chinese words have two characters.
    if not _RUN.search(word):
        return [word]
    result: list[str] = []
    start = 0
    for run in _RUN.finditer(word):
        result += [word[start : run.start()]] if run.start() > start else []
        letters = run.group()
        result += [*letters, *(letters[place : place + 2] for place in range(len(letters) - 1))]
        start = run.end()
    return result + ([word[start:]] if start < len(word) else [])


# What an encoder of form "multi-vector" returns becomes `TokenVectors`, or an error that says what was expected.


def take_in_sets(returned: Any, count: int, title: str, label: str) -> TokenVectors:
    """What an encoder returned, as several vectors for each of n inputs."""
    # returned: `TokenVectors`; n arrays (t, d), where t may differ; an array (n, t, d); or a pair of an array (n, t, d)
    # and a mask (n, t) of those vectors that count. Arrays of NumPy or torch, or lists.
    # count: How many inputs it was given (n).
    given = f"{label}: for {count} {title} it returned"
    if isinstance(returned, TokenVectors):
        sets = TokenVectors(np.asarray(returned.vectors, np.float32), returned.offsets)
    else:
        arrays = _arrays(returned, count, title, given)
        if len(arrays) != count:
            raise EncoderError(
                f"{given} {len(arrays)} arrays; expected are {count}, one of the shape (t, d) for each.",
                hint="return a list with an array of vectors for each input, in the order of the inputs",
            )
        empty = [number for number, array in enumerate(arrays, start=1) if len(array) == 0]
        if empty:
            raise EncoderError(
                f"{given} no vector for number {empty[0]} of them.",
                hint="return at least one vector for each input, e.g. the mean of its vectors",
            )
        widths = sorted({array.shape[1] for array in arrays})
        if len(widths) > 1 or widths == [0]:
            raise EncoderError(
                f"{given} vectors of {' and '.join(map(str, widths))} values.",
                hint="let all vectors have the same length",
            )
        offsets = np.cumsum([0, *map(len, arrays)], dtype=np.int64)
        sets = TokenVectors(np.concatenate(arrays or [np.zeros((0, 0), np.float32)]), offsets)
    if len(sets) != count:
        raise EncoderError(f"{given} the vectors of {len(sets)}.", hint="return the vectors of each input, in order")
    return sets


def _arrays(returned: Any, count: int, title: str, given: str) -> list[NDArray[np.float32]]:
    """An array (t, d) for each input."""
    if isinstance(returned, tuple) and len(returned) == 2 and _axes(returned[0]) == 3 and _axes(returned[1]) == 2:
        padded, mask = _number_array(returned[0], title, given), as_array(returned[1]).astype(bool)
        if padded.shape[:2] != mask.shape:
            raise EncoderError(
                f"{given} vectors of the shape {padded.shape} with a mask of the shape {mask.shape}.",
                hint="return vectors (n, t, d) and their mask (n, t)",
            )
        return [vectors[counts] for vectors, counts in zip(padded, mask, strict=True)]
    axes = _axes(returned)
    if axes == 3:
        return list(_number_array(returned, title, given))
    if axes == 2 and count == 1:
        return [_number_array(returned, title, given)]  # the vectors of a single input
    if axes is not None and axes != 1:
        shape = tuple(returned.shape)
        raise EncoderError(
            f"{given} numbers of the shape {shape}; expected is a list of {count} arrays (t, d): several vectors for "
            "each.",
            hint='it is one vector for each: say form = "dense"'
            if len(shape) == 2 and shape[0] == count
            else f"return an array of the shape ({count}, t, d), or a list of {count} arrays",
        )
    try:
        rows = list(returned.unbind() if getattr(returned, "is_nested", False) else returned)
    except TypeError as fault:
        raise _no_vectors(returned, title, given) from fault
    arrays = [_number_array(row, title, given) for row in rows]
    for number, array in enumerate(arrays, start=1):
        if array.ndim != 2:
            raise EncoderError(
                f"{given} for number {number} of them numbers of the shape {array.shape}; expected is (t, d): several "
                "vectors of d numbers.",
                hint='it is one vector for each: say form = "dense"'
                if array.ndim == 1
                else "return an array with two axes for each input",
            )
    return arrays


def _axes(values: Any) -> int | None:
    """How many axes an array or a tensor has; None for lists, for arrays of objects and for nested tensors."""
    if str(getattr(values, "dtype", "")) == "object" or getattr(values, "is_nested", False):
        return None
    shape = getattr(values, "shape", None)
    return None if shape is None else len(shape)


def _float32(values: Any) -> NDArray[np.float32]:
    array = as_array(values)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"values of the type {array.dtype}")
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is refused with its id
        return np.ascontiguousarray(array, np.float32)


def _number_array(values: Any, title: str, given: str) -> NDArray[np.float32]:
    try:
        return _float32(values)
    except (TypeError, ValueError, RuntimeError) as fault:
        raise _no_vectors(values, title, given, str(fault)) from fault


def _no_vectors(values: object, title: str, given: str, reason: str = "") -> EncoderError:
    return EncoderError(
        f"{given} {type(values).__name__}, which is no set of vectors{f' ({reason})' if reason else ''}.",
        hint=f"return a list with an array of the shape (t, d) for each of the {title}",
    )


Embedded: TypeAlias = NDArray[np.float32] | TokenVectors
"""What an encoder gives: a vector for each input, or several (form "multi-vector")."""


@dataclass(frozen=True, eq=False)
class InputBatch:
    """Inputs of an encoder that go through it together: texts, pictures, or texts with a picture each.

    Attributes:
        texts: n texts, each as `Encoder.prepare` made it; None of pictures alone.
        images: n pictures, each as `Encoder.prepare` made it; None of texts alone.
        alike: Whether all texts are of one `Encoder.text_lengths`: they are padded to that, so that a vector does not
            depend on the other texts.
    """

    texts: Sequence[Any] | None = None
    images: Sequence[Any] | None = None
    alike: bool = False

    @property
    def modality(self) -> Modality:
        """What they are: "text", "image" or "text+image"."""
        return "image" if self.texts is None else "text" if self.images is None else "text+image"

    def __len__(self) -> int:
        return len(self.images or ()) if self.texts is None else len(self.texts)


EMBEDDING: dict[str, Modality] = {
    "embed_images": "image",
    "embed_texts": "text",
    "embed_texts_alike": "text",
    "embed_texts_with_images": "text+image",
}
"""What a class written for visir 0.1.0 has in the place of `forward`: a method for each kind of input."""
_INPUTS: dict[Modality, str] = {"image": "images", "text": "texts", "text+image": "texts with images"}


PANIC = "PanicException"
"""What a library in Rust (tokenizers, safetensors) raises where it gives up; it is no `Exception`."""
_MODELS = "visir.encoders.models."
"""Where the encoders are that read models of other libraries."""
_SEVERAL = 'or keep them all (late interaction): Encoder.wrap(…, form="multi-vector"), in a class form = "multi-vector"'


def checked(method: Callable[..., Any], modality: Modality | None = None) -> Callable[..., Embedded]:
    """A method of an encoder that returns vectors: without gradients, and with what it returns checked."""
    # modality: What it takes; None for `forward`, whose batch says it.

    @wraps(method)
    def embed(self: Any, inputs: Any, *others: Any) -> Embedded:
        label = getattr(self, "label", type(self).__name__)
        kind: Modality = modality or inputs.modality
        with no_gradients(), faults_named(self, _INPUTS[kind]):
            returned = method(self, inputs, *others)
        vectors: Embedded
        if self.form == "multi-vector":
            vectors = take_in_sets(returned, len(inputs), _INPUTS[kind], label)
        else:
            vectors = take_in(returned, len(inputs), kind, label)
        self.learn_dimension(kind, vectors)
        return vectors

    embed.checks_vectors = True  # type: ignore[attr-defined]
    return embed


@contextmanager
def faults_named(encoder: Any, inputs: str) -> Iterator[None]:
    """What a library raises over the inputs of a model of it becomes an `EncoderError` that names the model."""
    # Of functions and classes of the user's own, an error stays what it is: its traceback leads to the line.
    try:
        yield
    except BaseException as fault:
        if not isinstance(fault, Exception) and type(fault).__name__ != PANIC:
            raise
        if isinstance(fault, VisirError | MemoryError) or not type(encoder).__module__.startswith(_MODELS):
            raise
        first = next((line.strip() for line in str(fault).splitlines() if line.strip()), "")
        raise EncoderError(
            f"{encoder.label}: it could not take {inputs}: {type(fault).__name__}{first and ': '}{first}",
            hint="less at once needs less memory (--batch-size 1)"
            if "out of memory" in str(fault)
            else "do the files of the model belong together (configuration, weights, processor, tokenizer)? Fetch all "
            "of them again",
            code="library-failed",
        ) from fault


def take_in(returned: Any, count: int, modality: Modality, label: str) -> NDArray[np.float32]:
    """What an encoder returned as (n, d) float32."""
    # returned: An (n, d) array of NumPy, torch (any device and type, with or without a gradient) or SciPy, or lists.
    # count: How many inputs it was given (n).
    if isinstance(returned, np.ndarray) and returned.dtype == np.float32 and returned.ndim == 2:
        vectors = returned  # what the models of visir return
    else:
        vectors = _numbers(returned, count, modality, label)
    if vectors.ndim == 1 and count == 1 and len(vectors):
        vectors = vectors[None]  # the vector of a single input
    if count == 0 and vectors.size == 0:
        return np.zeros((0, vectors.shape[1] if vectors.ndim == 2 else 0), np.float32)
    if vectors.ndim != 2 or len(vectors) != count or vectors.shape[1] == 0:
        raise EncoderError(
            f"{label}: for {count} {_INPUTS[modality]} it returned numbers of the shape {vectors.shape}; expected is "
            f"({count}, d): a vector of d numbers for each.",
            hint=_remedy(vectors.shape, count),
            code="returned-numbers-shape-expected",
        )
    return vectors


def no_gradients() -> AbstractContextManager[Any]:
    """Without gradients, where torch is in use."""
    torch = sys.modules.get("torch")
    return nullcontext() if torch is None else torch.no_grad()


def _numbers(returned: Any, count: int, modality: Modality, label: str) -> NDArray[np.float32]:
    try:
        return _float32(returned)
    except (TypeError, ValueError, RuntimeError) as fault:
        inside = f" of {type(returned[0]).__name__}" if isinstance(returned, list | tuple) and returned else ""
        hint = "return one row of numbers for each input, e.g. np.stack(vectors)"
        if isinstance(returned, list | tuple) and returned and len(getattr(returned[0], "shape", ())) == 2:
            hint = f"return one vector for each input, e.g. the mean over its tokens; {_SEVERAL}"
        for attribute in ("pooler_output", "image_embeds", "text_embeds", "last_hidden_state"):
            if getattr(returned, attribute, None) is not None:
                hint = f"return its tensor, e.g. return output.{attribute}"
                break
        raise EncoderError(
            f"{label}: for {count} {_INPUTS[modality]} it returned {type(returned).__name__}{inside}, which is no "
            f"array of numbers of the shape ({count}, d){f' ({fault})' if str(fault) else ''}.",
            hint=hint,
            code="returned-no-array-numbers",
        ) from fault


def _remedy(shape: tuple[int, ...], count: int) -> str:
    if len(shape) == 2 and shape[1] == count:
        return "turn it: return vectors.T"
    if len(shape) == 4 and shape[0] == count and shape[2:] == (1, 1):
        return "return vectors.reshape(len(vectors), -1)"
    if len(shape) == 3 and shape[0] == count:
        return f"return one vector for each input, e.g. the mean over tokens: return vectors.mean(1); {_SEVERAL}"
    if len(shape) == 1 and shape[0] == count:
        return "one number for each input is no vector; return an array with two axes"
    if len(shape) == 1 or shape[:1] == (1,):
        return "compute a vector for each of the inputs, not for all of them together: a mean over axis 0 is too much"
    return "return one row for each input, in the order of the inputs"
