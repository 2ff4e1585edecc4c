"""Encoders of one's own: two functions, or a class; what they may return, and that old code never answers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch
from encoder_toys import photos
from PIL import Image

import visir
from refusals import refused
from visir.encoders import Encoder, InputBatch, Store, compose, encode_detailed
from visir.encoders.base import hash_code
from visir.encoders.models.joined import ImageViews, JoinedTexts
from visir.encoders.models.sentence import ReducedEncoder
from visir.errors import EmbeddingError, EncoderError
from visir.records import EncoderCard, Items

TEXTS = Items.of_texts({"1": "a red boat", "2": "two dogs", "3": "rain"})


def lengths(texts: list[str]) -> list[list[int]]:
    return [[len(text), text.count(" ")] for text in texts]


def colours(images: list[Any]) -> Any:
    return np.stack([np.asarray(image).mean((0, 1)) for image in images])


WEIGHT = torch.nn.Parameter(torch.eye(2))
RETURNED: dict[str, Callable[[Any], Any]] = {
    "lists": lambda values: values,
    "integers": np.array,
    "float64": lambda values: np.array(values, float),
    "gradient": lambda values: torch.tensor(values).float() @ WEIGHT,
    "bfloat16": lambda values: torch.tensor(values).to(torch.bfloat16),
    "half": lambda values: torch.tensor(values).half(),
    "list of tensors": lambda values: [torch.tensor(value).float() for value in values],
    "sparse": scipy.sparse.csr_matrix,
}


@pytest.mark.parametrize("returned", RETURNED.values(), ids=RETURNED)
def test_a_function_may_return_any_array_of_numbers(returned: Callable[[Any], Any]) -> None:
    model = Encoder.wrap("mine", text=lambda texts: returned(lengths(texts)), batch_size=2)
    vectors = visir.encode(model, TEXTS).vectors
    assert vectors.dtype == np.float32 and vectors.tolist() == [[10, 2], [8, 1], [4, 0]]


def test_functions_run_without_gradients() -> None:
    seen = []
    Encoder.wrap("mine", text=lambda texts: seen.append(torch.is_grad_enabled()) or lengths(texts)).encode_texts(["a"])
    assert seen == [False] and torch.is_grad_enabled()


@pytest.mark.parametrize(
    ("function", "wrong", "remedy"),
    [
        (
            lambda texts: np.ones(3),
            r"for 3 texts it returned numbers of the shape \(3,\); expected is \(3, d\)",
            "two axes",
        ),
        (lambda texts: np.ones((5, 3)), r"of the shape \(5, 3\)", "return vectors.T"),
        (lambda texts: np.ones((2, 5)), r"of the shape \(2, 5\)", "in the order of the inputs"),
        (lambda texts: np.ones((1, 5)), r"of the shape \(1, 5\)", "a mean over axis 0 is too much"),
        (lambda texts: np.ones((3, 7, 5)), r"of the shape \(3, 7, 5\)", "return vectors.mean(1)"),
        (lambda texts: torch.ones(3, 5, 1, 1), r"of the shape \(3, 5, 1, 1\)", "reshape(len(vectors), -1)"),
        (lambda texts: None, r"for 3 texts it returned NoneType, which is no array of numbers", "np.stack"),
        (lambda texts: texts, "returned list of str, which is no array of numbers", "np.stack"),
        (lambda texts: [[1.0], [1.0, 2.0], [3.0]], "returned list of list, which is no array", "np.stack"),
    ],
)
def test_what_is_no_matrix_of_vectors_is_refused(function: Callable[[Any], Any], wrong: str, remedy: str) -> None:
    model = Encoder.wrap("mine", text=function)
    with pytest.raises(EncoderError, match="mine: .*" + wrong) as error:
        model.encode_texts(["a", "b", "c"])
    assert remedy in error.value.hint


def test_the_output_of_a_transformer_is_named() -> None:
    class Output:
        pooler_output = torch.ones(1, 3)

    with refused(EncoderError, "Output", code="returned-no-array-numbers") as error:
        Encoder.wrap("mine", text=lambda texts: Output()).encode_texts(["a"])
    assert error.value.hint == "return its tensor, e.g. return output.pooler_output"


def test_values_that_are_not_finite_name_their_inputs() -> None:
    model = Encoder.wrap("mine", text=lambda texts: torch.tensor([[float(len(text) != 8), np.nan] for text in texts]))
    with pytest.raises(EmbeddingError, match="NaN or infinite values for 3 inputs: '1', '2', '3'"):
        visir.encode(model, TEXTS)
    huge = Encoder.wrap("mine", text=lambda texts: np.full((len(texts), 2), 1e300))
    with refused(EmbeddingError, "infinite"):
        visir.encode(huge, TEXTS)


def test_unequal_dimensions_are_refused_where_they_meet(tmp_path: Path) -> None:
    collection = photos(tmp_path, 4)
    model = Encoder.wrap("mine", image=colours, text=lengths)
    assert visir.encode(model, collection, "image").dimension == 3
    assert visir.encode(model, collection, "text").dimension == 2
    with pytest.raises(EncoderError, match="image vectors have 3 values, text vectors have 2 values: they cannot be"):
        _ = model.dimension
    with refused(visir.errors.VisirError, "3", "2", code="configuration-not-one-space"):
        visir.evaluate(collection, model)
    sizes = iter([2, 2, 3])
    changing = Encoder.wrap("mine", text=lambda texts: np.ones((len(texts), next(sizes))), batch_size=1)
    with refused(EncoderError, "text", "3", "2", code="vectors-values-expected"):
        visir.encode(changing, TEXTS)


def test_one_function_takes_one_modality(tmp_path: Path) -> None:
    collection = photos(tmp_path, 2)
    model = Encoder.wrap("mine", image=colours)
    assert model.modalities == {"image"}
    with refused(EncoderError, "mine", "texts", "images", code="encodes-no"):
        visir.encode(model, collection, "text")
    with refused(EncoderError, "mine", code="no-function") as error:
        Encoder.wrap("mine")
    assert "text=function_of_strings" in error.value.hint
    with refused(EncoderError, "mine", "image", "str", code="not-function"):
        Encoder.wrap("mine", image="openai/clip")  # type: ignore[arg-type]


def test_the_function_gets_pictures_or_what_preprocess_makes_of_them(tmp_path: Path) -> None:
    seen: list[Any] = []

    def look(images: list[Any]) -> Any:
        seen.extend(images)
        return np.ones((len(images), 2))

    collection = photos(tmp_path, 2)
    visir.encode(Encoder.wrap("mine", image=look), collection, "image")
    assert all(image.mode == "RGB" and image.size == (8, 8) for image in seen)
    seen.clear()
    visir.encode(Encoder.wrap("mine", image=look, preprocess=lambda image: image.size), collection, "image")
    assert set(seen) == {(8, 8)}


def test_a_class_needs_a_method_only(tmp_path: Path) -> None:
    class Mine(Encoder):
        def embed_images(self, batch):  # type: ignore[no-untyped-def]
            return torch.from_numpy(colours(batch)).requires_grad_()

    model = Mine()
    assert repr(model) == "Encoder(Mine, images, no version: its vectors are not kept)"
    assert visir.encode(model, photos(tmp_path, 2), "image").dimension == model.dimension == 3
    assert (model.card.name, model.card.is_versioned) == ("Mine", False)
    with refused(EncoderError, "Nothing", code="takes-neither-images-nor") as error:
        visir.encode(type("Nothing", (Encoder,), {})(), TEXTS)
    assert "forward(self, batch, role)" in error.value.hint
    with refused(EncoderError, code="length-vectors-not-known"):
        _ = Mine().dimension
    with pytest.raises(AttributeError, match="no attribute 'dimensions'"):
        _ = Mine().dimensions  # type: ignore[attr-defined]


def test_vectors_without_a_version_are_computed_in_every_call(tmp_path: Path) -> None:
    store, calls = Store(tmp_path), []

    def count(texts: list[str]) -> Any:
        calls.append(len(texts))
        return lengths(texts)

    class Mine(Encoder):
        card = EncoderCard("mine", "custom")
        modalities = frozenset({"text"})

        def embed_texts(self, texts):  # type: ignore[no-untyped-def]
            return count(texts)

    for model in (Encoder.wrap("mine", text=count), Mine()):
        for _ in range(2):
            calls.clear()
            encoding = encode_detailed(model, TEXTS, store=store)
            assert calls and encoding.computed == 3 and encoding.folder is None
            assert encoding.embeddings.origin.startswith("encoded at ")


def test_with_a_version_vectors_are_kept_while_the_code_is_the_same(tmp_path: Path) -> None:
    store = Store(tmp_path)

    def computed(function: Callable[[list[str]], Any], version: str = "1") -> int:
        model = Encoder.wrap("mine", text=function, version=version)
        return encode_detailed(model, TEXTS, store=store).computed

    assert [computed(lengths), computed(lengths), computed(lengths, "2")] == [3, 0, 3]
    assert computed(lambda texts: [[len(text), 7] for text in texts]) == 3
    again = encode_detailed(Encoder.wrap("mine", text=lengths, version="1"), TEXTS, store=store)
    assert again.embeddings.origin.startswith("from the vector store, encoded at ")


def test_a_class_with_a_version_that_is_edited_is_another_one(tmp_path: Path) -> None:
    def model(factor: int) -> Encoder:
        space: dict[str, Any] = {"Encoder": Encoder, "EncoderCard": EncoderCard}
        exec(  # as a notebook does when a cell is edited
            "class Mine(Encoder):\n"
            "    card = EncoderCard('mine', 'custom', revision='1')\n"
            f"    def embed_texts(self, texts): return [[len(text) * {factor}, 1] for text in texts]\n",
            space,
        )
        encoder: Encoder = space["Mine"]()
        return encoder

    store = Store(tmp_path)
    assert [encode_detailed(model(factor), TEXTS, store=store).computed for factor in (1, 1, 2, 1)] == [3, 0, 3, 0]


SCRIPT = """
import sys, visir
{code}
model = visir.Encoder.wrap("mine", image=f, text=g{version})
report = visir.evaluate(visir.open("scenes:6?size=64&seed=1"), model)
print([round(v, 4) for task in ("t2i", "i2t") for v in [report.result.mean(task, "mrr")]])
print(report.result.origins["text vectors"].partition("encoded")[0] or "now")
"""
FIRST = """
import numpy as np
def f(images): return np.stack([np.asarray(i).mean((0, 1)) for i in images])
def g(texts): return np.array([[len(t), t.count("red"), 1] for t in texts])
"""


def test_an_edited_script_is_evaluated_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISIR_CACHE", str(tmp_path / "cache"))
    edited = FIRST.replace('t.count("red")', '-9 * t.count("blue")')

    def run(code: str, version: str) -> list[str]:
        (tmp_path / "script.py").write_text(SCRIPT.format(code=code, version=version))
        done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    first, second, third = run(FIRST, ""), run(edited, ""), run(FIRST, ", version='1'")
    assert first[0] == third[0] != second[0] and first[1] == second[1] == third[1] == "now"
    assert run(FIRST, ", version='1'") == [first[0], "from the vector store, "]
    assert run(edited, ", version='1'") == [second[0], "now"]  # the version was not changed, the code was


def test_vectors_of_edited_code_do_not_meet_in_an_index(tmp_path: Path) -> None:
    from visir.retrieval.kinds import build_index

    before = Encoder.wrap("mine", text=lengths)
    index = build_index(visir.encode(before, TEXTS), "exact")
    after = Encoder.wrap("mine", text=lambda texts: [[len(text) + 1, 0] for text in texts])
    with refused(EmbeddingError, "mine", code="index-another-model"):
        index.search(visir.encode(after, TEXTS), k=1)
    assert index.search(visir.encode(before, TEXTS), k=1).top("3") == ["3"]


def helper(texts: list[str]) -> Any:
    return lengths(texts)


def test_the_hash_of_code() -> None:
    scale = 2

    def scaled(texts: list[str]) -> Any:
        return [[scale * len(text)] for text in texts]

    first = hash_code(scaled)
    scale = 3
    assert hash_code(scaled) != first  # a plain value around the function
    assert hash_code(helper) == hash_code(helper) != hash_code(lengths)
    assert hash_code(partial(helper, 1)) != hash_code(partial(helper, 2))
    assert hash_code(torch.nn.Linear(2, 2)) == hash_code(torch.nn.Linear(2, 2))


def test_a_system_that_is_evaluated_again_computes_its_vectors_anew(tmp_path: Path) -> None:
    from visir.evaluation.systems import EncoderSystem

    factor = [1.0]
    model = Encoder.wrap(
        "mine",
        image=lambda images: colours(images) + 1,
        text=lambda texts: [[factor[0] * len(text), 1.0, text.count("very")] for text in texts],
    )
    collection, system = photos(tmp_path, 6), EncoderSystem(model)
    first = visir.evaluate(collection, system).result.mean("t2i", "mrr")
    factor[0] = -1.0
    assert visir.evaluate(collection, system).result.mean("t2i", "mrr") != first


class Of010(Encoder):
    """As visir 0.1.0 asked for it: a method for each kind of input, and a role that it keeps."""

    card = EncoderCard("mine", "custom", revision="1")
    distinguishes_roles = True
    dimension = 3

    def preprocess(self, image: Any) -> Any:
        return np.asarray(image, np.float32) + (self._role == "query")

    def embed_images(self, batch: Any) -> Any:
        return np.stack([pixels.mean((0, 1)) for pixels in batch])

    def embed_texts(self, texts: Any) -> Any:
        return [[len(text), text.count(" "), 1 + (self._role == "query")] for text in texts]

    def embed_texts_with_images(self, texts: Any, batch: Any) -> Any:
        return np.add(self.embed_texts(texts), self.embed_images(batch))


class OfToday(Encoder):
    """The same in two methods, which are told the role."""

    card = EncoderCard("mine", "custom", revision="1")
    modalities = frozenset({"image", "text", "text+image"})
    distinguishes_roles = True
    dimension = 3

    def prepare(self, item: Any, role: str) -> Any:
        if isinstance(item, str):
            return [len(item), item.count(" "), 1 + (role == "query")]
        return np.asarray(item, np.float32) + (role == "query")

    def forward(self, batch: InputBatch, role: str) -> Any:  # type: ignore[override]
        images = 0 if batch.images is None else np.stack([pixels.mean((0, 1)) for pixels in batch.images])
        return images + (0 if batch.texts is None else np.array(batch.texts))


@pytest.mark.parametrize("role", ["query", "document"])
def test_a_class_for_the_first_version_gives_what_two_methods_give(tmp_path: Path, role: Any) -> None:
    old, new, collection = Of010(), OfToday(), photos(tmp_path / "photos", 5)
    texts, pictures = (
        ["a red boat", "two dogs", "rain on a roof"],
        [Image.new("RGB", (8, 8), (i, 2, 3)) for i in range(3)],
    )
    assert old.modalities == new.modalities == {"image", "text", "text+image"}
    both = [{"text": text, "image": picture} for text, picture in zip(texts, pictures, strict=True)]
    for number, (source, modality) in enumerate(
        [(collection, "image"), (collection, "text"), (texts, None), (both, None)]
    ):
        expected, found = (
            visir.encode(each, source, modality, role=role, store=tmp_path / f"{number} {type(each).__name__}")  # type: ignore[arg-type]
            for each in (old, new)
        )
        assert np.array_equal(expected.vectors, found.vectors) and len(found) >= 3
    # Encoders over it, which call nothing but `prepare` and `forward`.
    for over in (
        lambda encoder: JoinedTexts([encoder, visir.load("bow:8")]),
        lambda encoder: ReducedEncoder(encoder, name="first", dimension=2),
        lambda encoder: compose(encoder, "sum(0.3)"),
        lambda encoder: ImageViews(encoder, ["whole", "centre"]),
    ):
        mine, theirs = over(new), over(old)
        if "text" in mine.modalities:
            assert np.array_equal(mine.encode_texts(texts, role), theirs.encode_texts(texts, role))
            alike = [each.for_role(role).embed_texts_alike(texts) for each in (mine, theirs)]
            assert np.array_equal(*alike)
        if "image" in mine.modalities:
            assert np.array_equal(mine.encode_images(pictures, role), theirs.encode_images(pictures, role))
    query, document = (new.encode_texts(texts, each) for each in ("query", "document"))
    assert not np.array_equal(query, document)


def test_two_methods_say_what_they_take() -> None:
    class Silent(Encoder):
        def forward(self, batch: InputBatch, role: str) -> Any:  # type: ignore[override]
            return [[1.0]] * len(batch)

    with refused(EncoderError, "Silent", code="modalities-not-stated"):
        visir.encode(Silent(), TEXTS)

    class Pictures(Silent):
        modalities = frozenset({"image"})

    with refused(EncoderError, code="encodes-no"):
        Pictures().encode_texts(["a dog"])

    class Wrong(Pictures):
        def forward(self, batch: InputBatch, role: str) -> Any:  # type: ignore[override]
            return np.zeros((5, 2))

    with refused(EncoderError, code="returned-numbers-shape-expected"):
        Wrong().forward(InputBatch(images=[1, 2]), "document")
