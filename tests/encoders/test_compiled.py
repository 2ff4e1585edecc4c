"""Towers that OpenVINO compiles: PyTorch's vectors, kept, refused where they would differ."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from packaging.version import Version

pytest.importorskip("openvino", reason="the extra openvino is not installed")
pytest.importorskip("transformers")

import tiny_dual
import tiny_openclip
import tiny_transformers as tiny

from refusals import refused
from visir.cli import encode
from visir.encoders import load
from visir.encoders.devices import has_bfloat16_units
from visir.encoders.models import exported
from visir.encoders.models.exported import COMPILED
from visir.errors import EncoderError
from visir.records import Items
from visir.storage import ContentStore

TEXTS = ["a dog", "two children run along the beach", "", "word " * 100, "A"]


def _agree(own: np.ndarray, reference: np.ndarray) -> bool:
    lengths = np.linalg.norm(own, axis=1) * np.linalg.norm(reference, axis=1)
    return bool(np.max(1 - (own * reference).sum(1) / lengths) < 1e-5)


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISIR_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("kind", ["clip", "siglip", "altclip", "groupvit", "align", "chinese_clip", "siglip2", "flava"])
def test_vectors_are_those_of_pytorch_or_refused(kind: str, tmp_path: Path) -> None:
    module = tiny if kind in ("clip", "siglip", "altclip", "groupvit", "align") else tiny_dual
    module.save(kind, tmp_path / "model")
    reference, encoder = (load(tmp_path / "model", device=device) for device in ("cpu", "openvino"))
    photos = tiny.photos()
    # Pooling of ALIGN; places of patches that SigLIP 2 interpolates, which OpenVINO compiles from transformers 5.24 on.
    refusals = {"align": "Kernel", "siglip2": "RuntimeError: select"}
    if kind == "align" or (kind == "siglip2" and Version(version("transformers")) < Version("5.24")):
        with refused(EncoderError, "image", refusals[kind], code="openvino-cannot-compile-tower"):
            encoder.encode_images(photos)
        photos = []
    for size in {min(size, len(photos)) for size in (1, 2, len(photos))} - {0}:
        assert _agree(encoder.encode_images(photos[:size]), reference.encode_images(photos[:size]))
    for texts in (TEXTS, TEXTS[:1], TEXTS[3:], TEXTS[::-1]):
        assert _agree(encoder.encode_texts(texts), reference.encode_texts(texts))
    assert encoder.encode_texts([]).shape == (0, reference.dimension)


def test_of_open_clip(tmp_path: Path) -> None:
    pytest.importorskip("open_clip")
    name = f"openclip:tiny-ViT/{tiny_openclip.save_zoo(tmp_path) / 'tiny-ViT.safetensors'}"
    reference, encoder = (load(name, device=device) for device in ("cpu", "openvino"))
    assert _agree(encoder.encode_images(tiny.photos()), reference.encode_images(tiny.photos()))
    assert _agree(encoder.encode_texts(TEXTS), reference.encode_texts(TEXTS))


def test_the_card_says_so_and_it_is_the_same_model(tmp_path: Path) -> None:
    tiny.save("clip", tmp_path / "model")
    reference, encoder = (load(tmp_path / "model", device=device) for device in ("cpu", "openvino"))
    assert encoder.card.dtype == "float32 (openvino)"
    assert encoder.card.is_same_model(reference.card) and encoder.card.differences(reference.card) == []
    assert encoder.card.identity("text") != reference.card.identity("text")  # kept apart in the store


def test_it_is_compiled_once_and_only_what_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny.save("clip", tmp_path / "model")
    vectors = load(tmp_path / "model", device="openvino").encode_texts(TEXTS)
    root = ContentStore(COMPILED).root
    assert len(list(root.rglob("network.xml"))) == 1  # texts alone
    monkeypatch.setattr(exported, "_converted", lambda *of: pytest.fail("compiled again"))
    assert np.array_equal(load(tmp_path / "model", device="openvino").encode_texts(TEXTS), vectors)
    in_bfloat16 = load(tmp_path / "model", device="openvino", dtype="bfloat16")  # from the same file
    assert in_bfloat16.card.dtype == "bfloat16 (openvino)"
    assert np.allclose(in_bfloat16.encode_texts(TEXTS), vectors, atol=0.1 * np.abs(vectors).max())


def test_other_weights_are_compiled_anew(tmp_path: Path) -> None:
    for place in ("one", "two"):
        tiny.save("clip", tmp_path / place)
    import transformers

    whole = transformers.CLIPModel.from_pretrained(tmp_path / "two")
    whole.text_projection.weight.data *= -1
    whole.save_pretrained(tmp_path / "two")
    first, second = (load(tmp_path / place, device="openvino").encode_texts(TEXTS) for place in ("one", "two"))
    assert np.allclose(first, -second, atol=1e-5)


def test_a_network_with_other_vectors_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny.save("clip", tmp_path / "model")
    monkeypatch.setattr(exported, "LARGEST_DIFFERENCE", -1.0)
    with refused(EncoderError, code="compiled-tower-gives-other") as fault:
        load(tmp_path / "model", device="openvino").encode_texts(TEXTS)
    assert "--device cpu" in str(fault.value)
    assert not list(ContentStore(COMPILED).root.rglob("network.xml"))


@pytest.mark.parametrize(("name", "same_size"), [("network.bin", False), ("network.bin", True), ("network.xml", True)])
def test_a_damaged_file_is_compiled_again(name: str, same_size: bool, tmp_path: Path) -> None:
    tiny.save("clip", tmp_path / "model")
    vectors = load(tmp_path / "model", device="openvino").encode_texts(TEXTS)
    [path] = ContentStore(COMPILED).root.rglob(name)
    content = path.read_bytes()
    path.write_bytes(content[:100] + bytes(len(content) - 100) if same_size else content[:100])
    with pytest.warns(UserWarning, match="damaged"):
        assert np.array_equal(load(tmp_path / "model", device="openvino").encode_texts(TEXTS), vectors)


@pytest.mark.parametrize(("dtype", "said"), [("float16", "float32 or bfloat16")])
def test_arithmetic_that_it_does_not_have(dtype: str, said: str, tmp_path: Path) -> None:
    tiny.save("clip", tmp_path / "model")
    with pytest.raises(EncoderError, match=said):
        load(tmp_path / "model", device="openvino", dtype=dtype).encode_texts(["a"])


def test_int8_is_near_and_kept_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny.save("clip", tmp_path / "model")
    exact, rounded = (load(tmp_path / "model", device="openvino", dtype=dtype) for dtype in ("float32", "int8"))
    assert rounded.card.dtype == "int8 (openvino)"
    assert rounded.card.is_same_model(exact.card)
    assert rounded.card.identity("text") != exact.card.identity("text")
    for expected, vectors in (
        (exact.encode_texts(TEXTS), rounded.encode_texts(TEXTS)),
        (exact.encode_images(tiny.photos()), rounded.encode_images(tiny.photos())),
    ):
        lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(expected, axis=1)
        difference = 1 - (vectors * expected).sum(1) / lengths
        assert 1e-7 < difference.max() < 0.02
    root = ContentStore(COMPILED).root
    assert len(list(root.rglob("network.xml"))) == 4  # two towers, each in float32 and in int8
    monkeypatch.setattr(exported, "_converted", lambda *of: pytest.fail("compiled again"))
    again = load(tmp_path / "model", device="openvino", dtype="int8")
    assert np.array_equal(again.encode_texts(TEXTS), rounded.encode_texts(TEXTS))


def test_pictures_in_int8_do_not_depend_on_their_company(tmp_path: Path) -> None:
    tiny.save("clip", tmp_path / "model")
    encoder, photos = load(tmp_path / "model", device="openvino", dtype="int8"), tiny.photos()
    together = encoder.encode_images(photos)
    for place, photo in enumerate(photos):
        assert np.allclose(encoder.encode_images([photo])[0], together[place], atol=1e-5 * np.abs(together).max())


def test_int8_is_refused_where_it_changes_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny.save("clip", tmp_path / "model")
    monkeypatch.setattr(exported, "LARGEST_INT8_DIFFERENCE", 1e-9)
    with refused(EncoderError, "text", code="int8-tower-gives-other") as fault:
        load(tmp_path / "model", device="openvino", dtype="int8").encode_texts(TEXTS)
    assert "leave --dtype out" in str(fault.value)
    assert not list(ContentStore(COMPILED).root.rglob("network.xml"))


@pytest.mark.parametrize("device", [None, "cpu"])
def test_int8_by_pytorch_is_refused(device: str | None, tmp_path: Path) -> None:
    tiny.save("clip", tmp_path / "model")
    with refused(EncoderError, "--device openvino --dtype int8"):
        load(tmp_path / "model", device=device, dtype="int8")


def test_the_device_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny.save("clip", tmp_path / "model")
    monkeypatch.setenv("VISIR_DEVICE", "openvino")
    assert load(tmp_path / "model").card.dtype == "float32 (openvino)"
    assert load(tmp_path / "model", dtype="int8").card.dtype == "int8 (openvino)"
    assert load(tmp_path / "model", device="cpu").card.dtype == "float32"
    assert load("bow:8").encode_texts(["a"]).shape == (1, 8)  # not of a family that can be compiled
    monkeypatch.setenv("VISIR_DEVICE", "nowhere")
    with pytest.raises(EncoderError, match=r"'nowhere' \(of VISIR_DEVICE\) cannot be used: there is no such kind"):
        load(tmp_path / "model")
    with refused(EncoderError, "OpenVINO", code="device-cannot-used", meant="openvino"):
        load(tmp_path / "model", device="OpenVINO")


def test_long_work_with_pytorch_is_told_what_is_faster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny.save("clip", tmp_path / "model")
    monkeypatch.setitem(encode._MANY, "text", 3)
    amx = tmp_path / "cpuinfo"
    amx.write_text("flags\t\t: fpu amx_bf16 amx_tile\n")
    assert has_bfloat16_units(amx) and not has_bfloat16_units(tmp_path)  # a folder: nothing can be told
    faster = {True: "openvino with --dtype bfloat16 is three to four", False: "openvino is about 1.2 times as fast"}
    many, few = (Items.of_texts({text: text for text in TEXTS[:count]}, title="texts") for count in (3, 2))
    for device, items, lines in (("cpu", many, 1), ("cpu", few, 0), ("openvino", many, 0)):
        encode.advise(load(tmp_path / "model", device=device), items, "document")
        assert capsys.readouterr().out.count(f"--device {faster[has_bfloat16_units()]}") == lines


def test_models_that_cannot_be_compiled_say_which_can() -> None:
    with pytest.raises(EncoderError):
        load("bow", device="openvino")


def test_nothing_is_reported_to_its_makers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`openvino.convert_model` sends a report of each conversion."""
    tiny.save("clip", tmp_path / "model")
    for name in [name for name in sys.modules if name.startswith("openvino_telemetry")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "openvino_telemetry", None)
    load(tmp_path / "model", device="openvino").encode_texts(["a"])


def test_a_signal_after_two_networks_are_freed() -> None:
    program = """
import faulthandler, os, signal
import numpy as np, openvino
from openvino import opset13 as operations
from visir.encoders.models.exported import CompiledTower

def network():
    x = operations.parameter([-1, 3], np.float32)
    return openvino.Model([operations.relu(x)], [x])

faulthandler.enable()
towers = [CompiledTower(network(), "float32") for _ in range(2)]
while towers:
    towers.pop(0)
signal.signal(signal.SIGINT, lambda *_: print("handled"))
os.kill(os.getpid(), signal.SIGINT)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "handled\n"), done.stderr
