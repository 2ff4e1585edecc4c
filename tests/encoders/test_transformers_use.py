"""What surrounds the vectors of transformers' models: cards, options, tokens, threads, the hub's cache, and faults."""

from __future__ import annotations

import gzip
import json
import lzma
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_transformers as tiny
import torch
from PIL import Image

from refusals import refused
from visir.collections.images import to_rgb
from visir.encoders.loading import load
from visir.encoders.models.hub import find_model
from visir.encoders.models.text_inputs import Tokens
from visir.errors import EncoderError, ImageError, VisirError

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clip")
    tiny.save("clip", folder)
    return folder


@pytest.fixture
def copy(clip: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(clip, tmp_path / "model"))


# --- the card -------------------------------------------------------------------------------------------------------


def test_the_card_says_everything_that_changes_the_numbers(clip: Path) -> None:
    card = load(clip, device="cpu").card
    assert card.family == "transformers-clip" and card.revision is None and card.dtype == "float32"
    assert card.image_preprocessing["class"] == "CLIPImageProcessor"
    assert card.image_preprocessing["backend"] == "pil"
    assert card.image_preprocessing["resample"] == "bicubic"
    assert card.image_preprocessing["size"] == {"shortest_edge": 32}
    assert card.image_preprocessing["image_mean"] == pytest.approx([0.48145466, 0.4578275, 0.40821073])
    text = {key: value for key, value in card.text_preprocessing.items() if key != "vocabulary"}
    assert text == {
        "tokenizer": "CLIPTokenizer",
        "template": "{}",
        "max_length": 77,
        "padding": "longest, right",
        "lower_case": True,
    }
    assert json.loads(json.dumps(card.to_dict())) == card.to_dict()


@pytest.mark.parametrize("option", ["template=a photo of {}", "max_length=20", "processor=torchvision"])
def test_an_option_changes_the_key_of_the_store(clip: Path, option: str) -> None:
    plain, changed = load(clip, device="cpu").card, load(f"{clip}?{option}", device="cpu").card
    assert plain.weights == changed.weights
    assert (plain.image_preprocessing, plain.text_preprocessing) != (
        changed.image_preprocessing,
        changed.text_preprocessing,
    )


def test_weights_configuration_and_vocabulary_are_hashed(clip: Path, copy: Path) -> None:
    card = load(copy, device="cpu").card
    assert card.weights == load(clip, device="cpu").card.weights
    config = json.loads((copy / "config.json").read_text())
    config["text_config"]["hidden_act"] = "gelu"  # same weights, another activation: another model
    (copy / "config.json").write_text(json.dumps(config))
    assert load(copy, device="cpu").card.weights != card.weights
    merges = (copy / "merges.txt").read_text().splitlines()
    (copy / "merges.txt").write_text("\n".join([merges[0], *merges[2:], merges[1]]) + "\n")
    assert load(copy, device="cpu").card.text_preprocessing["vocabulary"] != card.text_preprocessing["vocabulary"]


# --- texts ----------------------------------------------------------------------------------------------------------


def test_a_template_is_put_around_every_text(clip: Path) -> None:
    plain, asked = load(clip, device="cpu"), load(f"{clip}?template=a photo of {{}}, a dog", device="cpu")
    assert asked.card.text_preprocessing["template"] == "a photo of {}, a dog"
    expected = plain.encode_texts(["a photo of {braces}, a dog", "a photo of , a dog"])
    assert np.array_equal(asked.encode_texts(["{braces}", ""]), expected)


def test_a_long_text_is_cut_and_keeps_its_end_token(clip: Path) -> None:
    tokens = Tokens(clip, limit=77, vocabulary=10_000)
    ids = tokens(["dog " * 200], "cpu")["input_ids"][0].tolist()
    words = len(json.loads((clip / "vocab.json").read_text()))
    # 77 tokens: start, 75 times "dog</w>", end.
    assert len(ids) == 77 and ids[0] == words - 2 and ids[-1] == words - 1 and len(set(ids[1:-1])) == 1
    encoder = load(clip, device="cpu")
    assert np.allclose(*encoder.encode_texts(["dog " * 200, "dog " * 75]), atol=1e-6)


def test_tokens_equal_openais(data_dir: Path, tmp_path: Path) -> None:
    """5,000 real captions, with the ids that OpenAI's own tokenizer gives them."""
    lines = gzip.decompress((data_dir / "clip_tokenizer" / "bpe_simple_vocab_16e6.txt.gz").read_bytes()).decode()
    merges = lines.split("\n")[1 : 49152 - 256 - 2 + 1]  # as in OpenAI's simple_tokenizer.py
    assert tiny.clip_tokenizer(tmp_path, merges) == 49408
    (tmp_path / "config.json").write_text('{"model_type": "clip"}')
    tokens = Tokens(tmp_path, limit=77, vocabulary=49408)
    path = data_dir / "clip_tokenizer" / "reference_token_ids_5000.jsonl.xz"
    rows = [json.loads(line) for line in lzma.decompress(path.read_bytes()).splitlines()]
    assert len(rows) == 5000
    encoded = tokens([row["caption"] for row in rows], "cpu")
    lengths = encoded["attention_mask"].sum(dim=1).tolist()
    ids = [row[:length] for row, length in zip(encoded["input_ids"].tolist(), lengths, strict=True)]
    wrong = [row["caption"] for row, mine in zip(rows, ids, strict=True) if row["token_ids"] != mine]
    assert not wrong, wrong[:5]


def test_siglip_2_is_lower_cased_as_in_its_training(tmp_path: Path) -> None:
    """Fixed-resolution SigLIP 2 says it is a SigLIP, and comes with Gemma's tokenizer, which keeps case."""
    tiny.save("siglip", tmp_path)
    (tmp_path / "spiece.model").unlink()
    tiny.gemma_tokenizer(tmp_path)
    encoder = load(tmp_path, device="cpu")
    assert encoder.card.text_preprocessing["tokenizer"].startswith("Gemma")
    assert encoder.card.text_preprocessing["lower_case"] is True
    loud, quiet, other = encoder.encode_texts(["A DOG runs", "a dog runs", "a cat runs"])
    assert np.array_equal(loud, quiet) and not np.allclose(quiet, other, atol=1e-3)


# --- images ---------------------------------------------------------------------------------------------------------


def test_preprocessing_from_many_threads(clip: Path) -> None:
    for backend in ("pil", "torchvision"):
        encoder = load(f"{clip}?processor={backend}", device="cpu")
        photos = [to_rgb(photo) for photo in tiny.photos() * 8]
        alone = [encoder.preprocess(photo) for photo in photos]
        with ThreadPoolExecutor(8) as pool:
            together = list(pool.map(encoder.preprocess, photos))
        assert all(np.array_equal(a, b) for a, b in zip(alone, together, strict=True))
        assert together[0].dtype == np.float32 and together[0].shape == (3, 32, 32)


def test_looking_levels_up_gives_the_processors_own_bits(tmp_path: Path) -> None:
    from visir.encoders.models.image_processors import image_processor

    settings: dict[str, dict[str, Any]] = {
        "CLIPImageProcessor": {},
        "SiglipImageProcessor": {},
        "BlipImageProcessor": {},
        "EfficientNetImageProcessor": {"do_normalize": True, "rescale_offset": True, "rescale_factor": 1 / 127.5},
    }
    for name, changed in settings.items():
        folder = tmp_path / name
        folder.mkdir()
        tiny.image_processor(name, folder, **changed)
        (folder / "config.json").write_text('{"model_type": "clip"}')
        processor = image_processor(folder, "pil")
        # EfficientNet's also divides by the deviation at the end, table or not: there the plain call stays.
        assert (processor.levels is None) == (name == "EfficientNetImageProcessor")
        for photo in tiny.photos():
            expected = processor._plain_call(to_rgb(photo))
            assert np.array_equal(processor.pixels(to_rgb(photo)), expected), name


def test_the_two_processors_differ_by_grey_levels(clip: Path) -> None:
    pil, torchvision = (load(f"{clip}?processor={backend}", device="cpu") for backend in ("pil", "torchvision"))
    photo = to_rgb(tiny.photos()[2])
    levels = np.abs(pil.preprocess(photo) - torchvision.preprocess(photo)) * 0.2686 * 255  # CLIP's deviation of red
    assert 0.1 < levels.max() < 4  # not the same, and not another resize


def test_a_sliver_of_an_image_is_refused_and_not_blown_up(clip: Path, tmp_path: Path) -> None:
    encoder = load(clip, device="cpu")
    # The shortest edge of 1 pixel becomes 32; 32 x 32 x 200,000 = 205 million pixels.
    with refused(ImageError, "200000", "1", "205", code="scaled-shortest-edge-million"):
        encoder.preprocess(Image.new("RGB", (200_000, 1)))
    assert encoder.preprocess(Image.new("RGB", (2000, 1))).shape == (3, 32, 32)


# --- the hub --------------------------------------------------------------------------------------------------------


@pytest.fixture
def hub_cache(clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache as the hub's client keeps it, with one model, and no way out to the network."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    repository = tmp_path / "hub" / "models--someone--tiny-clip"
    shutil.copytree(clip, repository / "snapshots" / COMMIT)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(COMMIT)
    return repository


def test_a_cached_model_loads_without_network(hub_cache: Path, clip: Path) -> None:
    cached = load("someone/tiny-clip", device="cpu")
    assert cached.card.revision == COMMIT and cached.card.name == "someone/tiny-clip"
    assert load("someone/tiny-clip", device="cpu", revision=COMMIT).card == cached.card
    assert cached.card.weights == load(clip, device="cpu").card.weights
    assert np.array_equal(cached.encode_texts(["a dog"]), load(clip, device="cpu").encode_texts(["a dog"]))
    assert load("someone/tiny-clip?max_length=9", device="cpu").card.text_preprocessing["max_length"] == 9


def test_no_network_and_not_cached(hub_cache: Path) -> None:
    for name, revision in (("someone/other-clip", None), ("someone/tiny-clip", "v2")):
        with refused(EncoderError, code="not-machine-hub-could") as caught:
            load(name, device="cpu", revision=revision)
        assert "connect to the network once" in caught.value.hint


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (404, "RepoNotFound", "there is no such model on the hub"),
        (403, "GatedRepo", "the hub asks for the licence to be accepted first"),
        (404, "RevisionNotFound", "the hub has no revision 'v9' of it"),
        (500, "", "not on this machine, and the hub could not be reached"),
    ],
)
def test_what_the_hub_answers_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, status: int, code: str, message: str
) -> None:
    """A hub of our own on this machine, answering as the hub does."""
    from huggingface_hub import constants

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("X-Error-Code", code)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)  # whatever the environment says
    try:
        with pytest.raises(EncoderError, match=message):
            find_model("someone/tiny", "v9")
    finally:
        server.shutdown()
        server.server_close()


# --- faults ---------------------------------------------------------------------------------------------------------


def faults(copy: Path) -> dict[str, tuple[Any, str]]:
    weights = copy / "model.safetensors"
    config = copy / "config.json"
    return {
        "cut weights": (lambda: weights.write_bytes(weights.read_bytes()[:-1000]), "its weights cannot be read"),
        "rubbish weights": (lambda: weights.write_bytes(b"\xff" * 4000), "its weights cannot be read"),
        "no weights": (weights.unlink, "there are no weights in this folder"),
        "no processor": ((copy / "preprocessor_config.json").unlink, "cannot be loaded"),
        "no tokenizer": (lambda: [(copy / n).unlink() for n in ("vocab.json", "merges.txt")], "there is no tokenizer"),
        "broken config": (lambda: config.write_text("{"), "not valid JSON"),
        "no config": (lambda: (config.unlink(), (copy / "x").touch()), "holds no model that is known here"),
        "other kind": (
            lambda: config.write_text('{"model_type": "whisper"}'),
            "models of type 'whisper' take sounds, not images",
        ),
        "text model": (lambda: config.write_text('{"model_type": "bert"}'), "are text models: there is no image tower"),
        "video": (lambda: config.write_text('{"model_type": "videoprism"}'), "take videos, not images"),
        "writer": (lambda: config.write_text('{"model_type": "llava"}'), "write texts about images"),
        "detector": (lambda: config.write_text('{"model_type": "detr"}'), "no reader for models of type 'detr'"),
        "no type": (lambda: config.write_text("{}"), "says no model type"),
        "unheard-of": (lambda: config.write_text('{"model_type": "x9"}'), "no reader for models of type 'x9'"),
    }


@pytest.mark.parametrize("fault", list(faults(Path())))
def test_a_broken_folder_is_a_clear_error(copy: Path, fault: str) -> None:
    breaking, message = faults(copy)[fault]
    breaking()
    with pytest.raises(VisirError, match=message) as caught:
        load(copy, device="cpu")
    assert str(copy) in str(caught.value) and caught.value.hint


def test_missing_weights_are_not_made_up(copy: Path) -> None:
    from safetensors.torch import load_file, save_file

    state = load_file(copy / "model.safetensors")
    del state["visual_projection.weight"]
    save_file(state, copy / "model.safetensors", metadata={"format": "pt"})
    with refused(EncoderError, "1", "CLIPModel", "visual_projection", code="weights-not-checkpoint"):
        load(copy, device="cpu")


def test_weights_of_another_size(copy: Path) -> None:
    config = json.loads((copy / "config.json").read_text())
    config["projection_dim"] = 48
    (copy / "config.json").write_text(json.dumps(config))
    with refused(EncoderError, code="cannot-loaded"):
        load(copy, device="cpu")


def test_a_tokenizer_of_another_model(copy: Path) -> None:
    merges = [f"{a} {b}" for a in "abcdefgh" for b in "ijklmnop"]
    tiny.clip_tokenizer(copy, merges)  # 64 merges instead of 10: its last tokens are not in the model
    with refused(EncoderError, "578", "524", code="tokenizer-tokens-model-vectors"):
        load(copy, device="cpu")


def test_a_token_that_was_added_and_has_no_vector(clip: Path) -> None:
    encoder = load(clip, device="cpu")
    encoder.pretrained_tower("text").reader.prepare.__self__.vocabulary = 10  # type: ignore[attr-defined]
    with refused(EncoderError, "10", code="token-outside-model-vocabulary"):
        encoder.encode_texts(["a dog"])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("{}?templat=a {{}}", "unknown option 'templat'.*did you mean 'template'"),
        ("{}?template=a photo", "must hold {} exactly once"),
        ("{}?template={{}} and {{}}", "must hold {} exactly once"),
        ("{}?max_length=0", "not a positive whole number"),
        ("{}?max_length=78", "max_length=78 is more than the 77 tokens"),
        ("{}?processor=opencv", "processor='opencv' is not known"),
        ("{}?max_length", "'max_length' has no value"),
        ("{}?max_length=5&max_length=6", "'max_length' is given twice"),
    ],
)
def test_options_are_checked(clip: Path, name: str, message: str) -> None:
    with pytest.raises(EncoderError, match=f"(?s){message}"):
        load(name.format(clip), device="cpu")


def test_a_folder_has_no_revision(clip: Path) -> None:
    with refused(VisirError, code="folder-no-revision"):
        load(clip, device="cpu", revision="main")
    with refused(EncoderError, code="no-such-folder"):
        find_model(str(clip / "nowhere"), None)


def test_weights_in_pytorchs_own_format(copy: Path) -> None:
    from safetensors.torch import load_file

    expected = load(copy, device="cpu").encode_texts(tiny.CAPTIONS)
    torch.save(load_file(copy / "model.safetensors"), copy / "pytorch_model.bin")
    (copy / "model.safetensors").unlink()
    assert np.array_equal(load(copy, device="cpu").encode_texts(tiny.CAPTIONS), expected)
