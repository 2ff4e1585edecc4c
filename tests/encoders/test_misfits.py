"""Models whose parts do not fit each other, are missing or damaged: an error that names them, before work begins."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("open_clip")
pytest.importorskip("sentence_transformers")
pytest.importorskip("onnx")

import onnx
import tiny_openclip
import tiny_sentence
import tiny_towers
import tiny_transformers as tiny
from PIL import Image

import visir
from refusals import refused
from visir.encoders.loading import load
from visir.encoders.models.onnx_image import OnnxImageEncoder
from visir.errors import EncoderError, VisirError


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    top = tmp_path_factory.mktemp("models")
    tiny.save("clip", top / "clip")
    tiny_towers.save("dinov2", top / "dinov2")
    tiny_sentence.save(top / "st")
    tiny_sentence.save_clip(top / "st-clip")
    (top / "zoo").mkdir()
    tiny_openclip.save_zoo(top / "zoo")
    config = {"model_cfg": tiny_openclip.ARCHITECTURES["tiny-ViT"], "preprocess_cfg": {"size": 32}}
    (top / "openclip").mkdir()
    (top / "openclip" / "open_clip_config.json").write_text(json.dumps(config))
    shutil.copy(top / "zoo" / "tiny-ViT.safetensors", top / "openclip" / "open_clip_model.safetensors")
    return {path.name: path for path in top.iterdir()}


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    (tmp_path / "photos").mkdir()
    for number, size in enumerate(((70, 90), (96, 90))):
        Image.new("RGB", size, (90 * number, 9, 9)).save(tmp_path / "photos" / f"{number}.png")
    return tmp_path / "photos"


def processor_of(folder: Path) -> Path:
    return next(folder.rglob("*processor_config.json"))


def with_processor(saved: dict[str, Path], name: str, tmp_path: Path, **values: Any) -> Path:
    folder = Path(shutil.copytree(saved[name], tmp_path / "model"))
    path = processor_of(folder)
    content = json.loads(path.read_text())
    content.get("image_processor", content).update(values)
    path.write_text(json.dumps(content))
    return folder


LARGER = {"size": {"shortest_edge": 80}, "crop_size": {"height": 80, "width": 80}}
NOT_CUT = {"do_center_crop": False}
NOT_SCALED = {"do_resize": False, "do_center_crop": False}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (LARGER, r"makes pictures of 80 × 80 pixels \(\w+.json\), and the model takes 32 × 32: "),
        (NOT_CUT, r"several sizes, \d+ × \d+ pixels of one and \d+ × \d+ of another \(\w+.json\); .* 32 × 32"),
        (NOT_SCALED, "several sizes, 48 × 67 pixels of one and 67 × 48 of another"),
        ({"image_mean": [0.5, 0.5]}, r"processor_config.json: image_mean=.0.5, 0.5.: three numbers"),
        ({"image_std": [0.5, 0.5, 0.5, 0.5]}, "image_std=.*three numbers"),
        ({"image_std": [0.5, 0.0, 0.5]}, "image_std=.*none of them 0"),
    ],
)
def test_a_processor_of_another_model(
    saved: dict[str, Path], tmp_path: Path, photos: Path, values: dict[str, Any], said: str
) -> None:
    folder = with_processor(saved, "clip", tmp_path, **values)
    with pytest.raises(EncoderError, match=said) as caught:
        load(folder, device="cpu")
    assert str(folder) in caught.value.message and caught.value.hint
    with pytest.raises(VisirError, match=said):
        visir.index(photos, str(folder), out=tmp_path / "photos.visir", device="cpu")
    assert not (tmp_path / "photos.visir").exists()


def test_another_size_that_the_model_takes(saved: dict[str, Path], tmp_path: Path) -> None:
    """DINOv2 scales its places: pictures of another size are no fault."""
    before = load(saved["dinov2"], device="cpu").preprocess(Image.new("RGB", (90, 60))).shape
    values = {"size": {"shortest_edge": 64}, "crop_size": {"height": 64, "width": 64}}
    encoder = load(with_processor(saved, "dinov2", tmp_path, **values), device="cpu")
    assert encoder.preprocess(Image.new("RGB", (90, 60))).shape == (3, 64, 64) != before
    assert np.isfinite(encoder.encode_images([Image.new("RGB", (90, 60))])).all()


def test_a_preprocessing_of_another_model_in_open_clip(saved: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(saved["openclip"], tmp_path / "model"))
    path = folder / "open_clip_config.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"preprocess_cfg": {"size": 48}}))
    encoder = load(folder, device="cpu")  # open_clip takes the size of its architecture
    assert encoder.preprocess(Image.new("RGB", (90, 60))).shape == (3, 32, 32)
    path.write_text(json.dumps(content | {"preprocess_cfg": {"mean": [0.5, 0.5]}}))
    with refused(EncoderError, folder, code="cannot-loaded"):
        load(folder, device="cpu")


@pytest.mark.parametrize("values", [LARGER, NOT_CUT, NOT_SCALED])
def test_a_processor_of_another_model_in_sentence_transformers(
    saved: dict[str, Path], tmp_path: Path, photos: Path, values: dict[str, Any]
) -> None:
    folder = with_processor(saved, "st-clip", tmp_path, **values)
    with pytest.raises(VisirError, match=str(folder)):
        visir.index(photos, str(folder), out=tmp_path / "photos.visir", device="cpu")
    assert not (tmp_path / "photos.visir").exists()
    with refused(EncoderError, folder):
        load(folder, device="cpu").encode_images([Image.open(path) for path in sorted(photos.iterdir())])


@pytest.mark.parametrize("name", ["clip", "st"])
def test_a_tokenizer_with_more_tokens_than_the_model(saved: dict[str, Path], tmp_path: Path, name: str) -> None:
    folder = Path(shutil.copytree(saved[name], tmp_path / "model"))
    path = folder / "tokenizer.json"
    tiny_words = folder / "vocab.json" if name == "clip" else path
    content = json.loads(tiny_words.read_text())
    vocabulary = content if name == "clip" else content["model"]["vocab"]
    vocabulary |= {f"word{number}": len(vocabulary) + number for number in range(50)}
    tiny_words.write_text(json.dumps(content))
    with refused(EncoderError, code="tokenizer-tokens-model-vectors") as caught:
        load(folder, device="cpu")
    assert str(folder) in caught.value.message and caught.value.hint


def test_more_tokens_than_places(saved: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(saved["st"], tmp_path / "model"))
    path = folder / "sentence_bert_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"max_seq_length": 400}))
    with refused(EncoderError, "400", "48", code="texts-cut-tokens-max") as caught:
        load(folder, device="cpu")
    assert f"{folder}?max_length=48" in caught.value.hint
    assert load(f"{folder}?max_length=48", device="cpu").encode_texts(["a dog " * 300]).shape == (1, 32)


def test_what_a_library_raises_over_a_batch_names_the_model(
    saved: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = load(saved["clip"], device="cpu")

    def fails(*_: Any) -> Any:
        raise RuntimeError("index out of range in self\nand more")

    monkeypatch.setattr(encoder.pretrained_tower("text"), "prepare_all", fails)
    with refused(EncoderError, saved["clip"], "texts", "RuntimeError", "index out", code="library-failed") as caught:
        encoder.encode_texts(["a dog"])
    assert caught.value.hint and isinstance(caught.value.__cause__, RuntimeError)


def test_errors_of_own_functions_stay_what_they_are() -> None:
    def fails(images: list[Any]) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        visir.Encoder.wrap("mine", image=fails).encode_images([Image.new("RGB", (8, 8))])


def save_onnx(folder: Path, *, shift: float = 0) -> Path:
    """A graph that takes the mean of each channel times a matrix; the matrix lies in a file beside it."""
    folder.mkdir()
    matrix = np.random.default_rng(0).normal(size=(3, 400)).astype(np.float32) + np.float32(shift)
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [
            helper.make_node("GlobalAveragePool", ["x"], ["pooled"]),
            helper.make_node("Flatten", ["pooled"], ["flat"]),
            helper.make_node("MatMul", ["flat", "matrix"], ["y"]),
        ],
        "means",
        [helper.make_tensor_value_info("x", kind, ["n", 3, 16, 16])],
        [helper.make_tensor_value_info("y", kind, ["n", 400])],
        [onnx.numpy_helper.from_array(matrix, "matrix")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, folder / "m.onnx", save_as_external_data=True, location="m.weights", size_threshold=0)
    return folder / "m.onnx"


def test_weights_of_a_graph_in_a_file_beside_it(tmp_path: Path) -> None:
    options = {"normalise": "imagenet"}
    read: Callable[[Path], OnnxImageEncoder] = lambda file: OnnxImageEncoder(file, options=options)  # noqa: E731
    file = save_onnx(tmp_path / "a")
    encoder, other = read(file), read(save_onnx(tmp_path / "b", shift=1))
    assert encoder.dimension == 400
    assert (tmp_path / "a" / "m.onnx").read_bytes() == (tmp_path / "b" / "m.onnx").read_bytes()
    assert encoder.card.weights != other.card.weights  # or they would share vectors in the store
    weights = file.with_name("m.weights")
    content = weights.read_bytes()
    weights.write_bytes(content[:100])
    with refused(EncoderError, "m.onnx"):
        read(file)
    weights.unlink()
    with refused(EncoderError, "m.onnx", code="weights-lie-another-file") as caught:
        read(file)
    assert "m.weights" in caught.value.message and caught.value.hint


def test_constants_of_a_graph_in_a_file_beside_it(tmp_path: Path) -> None:
    """Weights need no initializer: a node may hold them, and its file counts as much."""
    cards = []
    for shift in (0, 1):
        file = save_onnx(tmp_path / str(shift), shift=shift)
        model = onnx.load(str(file))
        matrix = model.graph.initializer.pop()
        model.graph.node.insert(0, onnx.helper.make_node("Constant", [], ["matrix"], value=matrix))
        others = {"save_as_external_data": True, "location": "m.weights", "convert_attribute": True}
        file.with_name("m.weights").unlink()
        onnx.save(model, file, size_threshold=0, **others)
        assert file.with_name("m.weights").stat().st_size >= matrix.ByteSize() // 2
        cards.append(OnnxImageEncoder(file, options={"normalise": "imagenet"}).card.weights)
    assert (tmp_path / "0" / "m.onnx").read_bytes() == (tmp_path / "1" / "m.onnx").read_bytes()
    assert cards[0] != cards[1]


@pytest.mark.parametrize("location", ["../outside", "/etc/passwd"])
def test_weights_of_a_graph_lie_in_its_folder(tmp_path: Path, location: str) -> None:
    file = save_onnx(tmp_path / "a")
    file.with_name("m.weights").rename(tmp_path / "outside")
    model = onnx.load(str(file), load_external_data=False)
    for entry in model.graph.initializer[0].external_data:
        if entry.key == "location":
            entry.value = location
    file.write_bytes(model.SerializeToString())
    with refused(EncoderError, code="weights-lie-another-file"):
        OnnxImageEncoder(file, options={"normalise": "imagenet"})


def flipped(path: Path, places: int, seed: int) -> list[bytes]:
    """The content of a file with one byte changed, several times."""
    content, random = path.read_bytes(), np.random.default_rng(seed)
    spread = np.unique(np.concatenate([np.arange(0, 12), random.integers(0, len(content), places)]))
    changed = []
    for place in spread[spread < len(content)]:
        copy = bytearray(content)
        copy[place] ^= 1 << int(random.integers(0, 8))
        changed.append(bytes(copy))
    return changed


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("clip", "model.safetensors"),
        ("clip", "vocab.json"),
        ("clip", "config.json"),
        ("clip", "processor"),
        ("st", "tokenizer.json"),
        ("st", "config.json"),
        ("st", "modules.json"),
        ("openclip", "open_clip_config.json"),
        ("openclip", "open_clip_model.safetensors"),
    ],
)
def test_a_changed_byte_is_an_error_of_ours_or_none(
    saved: dict[str, Path], tmp_path: Path, name: str, file: str
) -> None:
    folder = Path(shutil.copytree(saved[name], tmp_path / "model"))
    path = processor_of(folder) if file == "processor" else folder / file
    for content in flipped(path, 15 if name == "clip" else 5, seed=4):
        path.write_bytes(content)
        try:
            encoder = load(folder, device="cpu")
            encoder.encode_texts(["a dog", ""])
            if "image" in encoder.modalities:
                encoder.encode_images([Image.new("RGB", (50, 40))])
        except VisirError as fault:
            assert fault.message


def test_a_changed_byte_in_a_graph_is_an_error_of_ours_or_none(tmp_path: Path) -> None:
    file = save_onnx(tmp_path / "a")
    for content in flipped(file, 60, seed=5):
        file.write_bytes(content)
        try:
            OnnxImageEncoder(file, options={"normalise": "imagenet"}).encode_images([Image.new("RGB", (50, 40))])
        except VisirError as fault:
            assert fault.message
