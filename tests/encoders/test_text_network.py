"""Text towers kept as ONNX networks: PyTorch's vectors without PyTorch, found by the model's card, refused in doubt."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from refusals import refused

pytest.importorskip("onnxruntime", reason="the extra transformers is not installed")
pytest.importorskip("transformers")

import tiny_dual
import tiny_transformers as tiny

from visir.encoders import Encoder, load
from visir.encoders.models import exported
from visir.encoders.models.exported import TEXT_NETWORKS, keep_text_network, key_of
from visir.encoders.models.text_inputs import FewTokens
from visir.library import update
from visir.library.layout import LibraryError
from visir.library.searcher import Searcher
from visir.storage import ContentStore

TEXTS = ["a dog", "two children run along the beach", "", "word " * 100, "A", "Ünïcode 中文"]


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISIR_CACHE", str(tmp_path / "cache"))


def _model(kind: str, folder: Path) -> Encoder:
    (tiny if kind in ("clip", "siglip", "altclip", "groupvit", "align") else tiny_dual).save(kind, folder)
    return load(folder, device="cpu")


def _near(own: np.ndarray, reference: np.ndarray) -> bool:
    lengths = np.linalg.norm(own, axis=1) * np.linalg.norm(reference, axis=1)
    return bool(np.max(1 - (own * reference).sum(1) / lengths) < 1e-6)


@pytest.mark.parametrize("kind", ["clip", "siglip", "altclip", "groupvit", "align", "chinese_clip", "siglip2", "flava"])
def test_vectors_are_those_of_pytorch(kind: str, tmp_path: Path) -> None:
    encoder = _model(kind, tmp_path / "model")
    is_kept = keep_text_network(encoder)
    network = exported.text_network(encoder.card)
    assert is_kept == (network is not None)
    assert is_kept, _reason(encoder)
    if network is not None:
        for texts in (TEXTS, TEXTS[:1], TEXTS[2:3], TEXTS[::-1]):
            assert _near(network.encode_texts(texts), encoder.encode_texts(texts))
        once = exported.text_network(encoder.card, once=True)
        assert once is not None
        assert isinstance(once._inputs, FewTokens) == (
            kind in ("clip", "groupvit", "align", "chinese_clip", "flava", "siglip2")
        )
        assert _near(once.encode_texts(TEXTS[:1]), encoder.encode_texts(TEXTS[:1]))
        assert _near(once.encode_texts(TEXTS), encoder.encode_texts(TEXTS))
        assert network.encode_texts([]).shape == (0, encoder.dimension)
        assert not network.card.differences(encoder.card)
        assert network.card.dtype == "float32 (onnxruntime)"
        assert not keep_text_network(encoder)


def _reason(encoder: Encoder) -> str:
    manifest = ContentStore(TEXT_NETWORKS).find(key_of(encoder.card))
    return "not tried" if manifest is None else str(manifest.content["refused"])


def test_other_weights_and_models_without_any_have_none(tmp_path: Path) -> None:
    encoder = _model("clip", tmp_path / "model")
    assert keep_text_network(encoder)
    assert exported.text_network(replace(encoder.card, weights="0" * 32)) is None
    assert exported.text_network(replace(encoder.card, name="moved")) is not None
    for name in ("pixels", "bow"):
        assert not keep_text_network(load(name))


def test_one_with_other_vectors_is_refused_and_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = _model("clip", tmp_path / "model")
    monkeypatch.setattr(exported, "LARGEST_DIFFERENCE", -1.0)
    begun: list[int] = []
    assert not keep_text_network(encoder, lambda: begun.append(1))
    assert "other vectors than PyTorch" in _reason(encoder)
    assert exported.text_network(encoder.card) is None
    assert not list((tmp_path / "cache").rglob("network.*"))
    assert not keep_text_network(encoder, lambda: begun.append(2))
    assert begun == [1]


@pytest.mark.parametrize("damage", ["cut", "other weights", "other tokens"])
def test_a_damaged_one_is_put_aside(damage: str, tmp_path: Path) -> None:
    encoder = _model("clip", tmp_path / "model")
    assert keep_text_network(encoder)
    folder = ContentStore(TEXT_NETWORKS).path(key_of(encoder.card))
    path = folder / ("tokenizer.json" if damage == "other tokens" else "network.bin")
    if not path.exists():  # so small that its weights lie in the network's own file
        path = folder / "network.onnx"
    content = bytearray(path.read_bytes())
    if damage == "other weights":
        content[-4000:] = bytes(4000)
    path.write_bytes(content[:-100] if damage == "cut" else content.replace(b"a", b"b") if "tok" in damage else content)
    with pytest.warns(UserWarning, match="damaged"):
        assert exported.text_network(encoder.card) is None
    assert keep_text_network(encoder)
    assert exported.text_network(encoder.card) is not None


def test_a_library_is_searched_without_pytorch(tmp_path: Path) -> None:
    _model("clip", tmp_path / "model")
    (tmp_path / "photos").mkdir()
    for number, photo in enumerate(tiny.photos()):
        photo.convert("RGB").save(tmp_path / "photos" / f"{number}.png")
    stages: list[str] = []
    update(
        tmp_path / "photos", tmp_path / "own.visir", model=str(tmp_path / "model"), device="cpu",
        callback=lambda stage, done, total: stages.append(stage),
    )  # fmt: skip
    assert stages[-1] == "keeping the text tower"
    with Searcher.open(tmp_path / "own.visir", device="cpu", deterministic=True) as searcher:
        expected = searcher.find(text="two dogs", k=3)
    program = f"""
import sys
from PIL import Image
from visir.library.layout import LibraryError
from visir.library.searcher import Searcher
with Searcher.open({str(tmp_path / "own.visir")!r}, device="cpu") as searcher:
    page = searcher.find(text="two dogs", k=3)
    assert searcher.takes_texts
    assert "torch" not in sys.modules and "transformers" not in sys.modules and "numba" not in sys.modules
    print(*(hit.id for hit in page.hits), *(f"{{hit.score:.5f}}" for hit in page.hits))
    assert len(searcher.find(image=Image.open({str(tmp_path / "photos" / "0.png")!r}), k=2).hits) == 2
    assert "torch" in sys.modules  # a picture needs the model
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    listed = [*(hit.id for hit in expected.hits), *(f"{hit.score:.5f}" for hit in expected.hits)]
    assert done.stdout.split() == listed


def test_on_a_gpu_it_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exported.os.path, "exists", lambda path: path == "/dev/nvidia0")
    assert not exported.runs_on_processor(None)
    assert not exported.runs_on_processor("cuda")
    assert not exported.runs_on_processor("openvino")
    assert exported.runs_on_processor("cpu")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_one_in_another_arithmetic_leaves_that_of_the_same_weights_open(dtype: str, tmp_path: Path) -> None:
    encoder = _model("clip", tmp_path / "model")
    assert not keep_text_network(load(tmp_path / "model", device="cpu", dtype=dtype))
    assert keep_text_network(encoder)


def test_one_on_another_device_leaves_that_of_the_processor_open(tmp_path: Path) -> None:
    encoder, other = _model("clip", tmp_path / "model"), load(tmp_path / "model", device="cpu")
    other.pretrained_tower("text").network.to("meta")  # type: ignore[attr-defined]
    assert not keep_text_network(other)
    assert keep_text_network(encoder)


def test_a_full_disk_leaves_nothing_behind_and_it_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = _model("clip", tmp_path / "model")
    usage = shutil.disk_usage(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=10_000))
        with pytest.warns(UserWarning, match="its text tower is not kept: .*No space left on device"):
            assert not keep_text_network(encoder)
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert keep_text_network(encoder)


def test_a_damaged_one_that_cannot_be_renamed_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = _model("clip", tmp_path / "model")
    assert keep_text_network(encoder)
    folder = ContentStore(TEXT_NETWORKS).path(key_of(encoder.card))
    (folder / "network.onnx").write_bytes(b"cut")

    def refuse(path: Path, target: Path) -> Path:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.warns(UserWarning, match=r"it is not used, and cannot be renamed \(Read-only file system\)"):
        assert exported.text_network(encoder.card) is None


def test_what_a_library_offers_is_known_without_its_model(tmp_path: Path) -> None:
    _model("clip", tmp_path / "model")
    (tmp_path / "photos").mkdir()
    tiny.photos()[0].convert("RGB").save(tmp_path / "photos" / "0.png")
    update(tmp_path / "photos", tmp_path / "own.visir", model=str(tmp_path / "model"), device="cpu")
    (tmp_path / "model").rename(tmp_path / "moved")
    with Searcher.open(tmp_path / "own.visir", device="cpu") as searcher:
        assert not searcher.has_cross_encoder
        assert searcher.takes_texts


def test_a_refusal_holds_for_the_packages_of_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = _model("clip", tmp_path / "model")
    with monkeypatch.context() as patch:
        patch.setattr(exported, "LARGEST_DIFFERENCE", -1.0)
        assert not keep_text_network(encoder)
    assert not keep_text_network(encoder) and _reason(encoder)
    with monkeypatch.context() as patch:
        patch.setattr(exported, "package_versions", lambda: {"torch": "0.1"})
        assert keep_text_network(encoder)
    assert _reason(encoder) == ""
    assert exported.text_network(encoder.card) is not None
    assert not keep_text_network(encoder)  # what is kept stays, with whatever packages


def test_kept_and_opened_in_any_order(tmp_path: Path) -> None:
    encoder = _model("clip", tmp_path / "model")
    assert exported.text_network(encoder.card) is None
    assert keep_text_network(encoder)
    first = exported.text_network(encoder.card)
    shutil.rmtree(tmp_path / "cache")
    assert first is not None and first.encode_texts(["a dog"]).shape == (1, encoder.dimension)
    assert exported.text_network(encoder.card) is None
    assert keep_text_network(encoder)
    assert exported.text_network(encoder.card) is not None


def test_without_onnx_runtime_pytorch_encodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = _model("clip", tmp_path / "model")
    for module in (exported,):
        monkeypatch.setattr(module, "is_installed", lambda package: package != "onnxruntime")
    assert not keep_text_network(encoder)
    assert not (tmp_path / "cache").exists()
    monkeypatch.undo()
    monkeypatch.setenv("VISIR_CACHE", str(tmp_path / "cache"))
    assert keep_text_network(encoder)
    monkeypatch.setattr(exported, "is_installed", lambda package: package != "onnxruntime")
    assert exported.text_network(encoder.card) is None


def test_a_cache_that_takes_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = _model("clip", tmp_path / "model")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("VISIR_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.warns(UserWarning, match="its text tower is not kept"):
        assert not keep_text_network(encoder)
    assert exported.text_network(encoder.card) is None


def test_two_makers_at_once_keep_one_tower(tmp_path: Path) -> None:
    encoder = _model("clip", tmp_path / "model")
    program = f"""
from visir.encoders import load
from visir.encoders.models.exported import keep_text_network
print("ready", flush=True)
encoder = load({str(tmp_path / "model")!r}, device="cpu")
input()
print(keep_text_network(encoder))
"""
    makers = [
        subprocess.Popen([sys.executable, "-c", program], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    answers = [maker.communicate("\n")[0].split() for maker in makers]
    assert sorted(answers) == [["ready", "False"], ["ready", "True"]]
    network = exported.text_network(encoder.card)
    assert network is not None and _near(network.encode_texts(TEXTS), encoder.encode_texts(TEXTS))


def test_of_a_library_that_is_moved_and_a_model_that_is_replaced(tmp_path: Path) -> None:
    _model("clip", tmp_path / "model")
    (tmp_path / "photos").mkdir()
    for number, photo in enumerate(tiny.photos()):
        photo.convert("RGB").save(tmp_path / "photos" / f"{number}.png")
    update(tmp_path / "photos", tmp_path / "own.visir", model=str(tmp_path / "model"), device="cpu")

    def hits_of(library: str) -> list[tuple[str, float]]:
        with Searcher.open(tmp_path / library, device="cpu") as searcher:
            return [(hit.id, hit.score) for hit in searcher.find(text="two dogs", k=3).hits]

    before = hits_of("own.visir")
    (tmp_path / "own.visir").rename(tmp_path / "moved.visir")
    assert hits_of("moved.visir") == before
    shutil.rmtree(tmp_path / "model")
    _model("groupvit", tmp_path / "model")  # other weights under the same name: the vectors are those of the first
    assert hits_of("moved.visir") == before
    shutil.rmtree(tmp_path / "cache")
    with refused(LibraryError, code="not-model-library-made"):
        hits_of("moved.visir")
