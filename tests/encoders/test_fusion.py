"""X-VLM and ALBEF against the authors' own code: token ids, vectors, matching scores; checkpoints that do not fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_fusion as tiny
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from refusals import refused
from visir.encoders.families import PRETRAINED_TOWERS
from visir.encoders.loading import load, load_cross_encoder
from visir.encoders.models.small import first_words, plain_caption
from visir.errors import EncoderError

KINDS = tiny.KINDS


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {kind: tiny.write(kind, tmp_path_factory.mktemp(kind)) for kind in KINDS}


def parts(name: str) -> tuple[str, Path, Path]:
    """Kind, checkpoint and configuration of a name that `tiny.write` made."""
    kind, _, rest = name.partition(":")
    file, _, config = rest.partition("?config=")
    return kind, Path(file), Path(config)


def rewritten(name: str, folder: Path, change: Any) -> str:
    """The checkpoint with `change` done to its content, beside a vocabulary, in `folder`."""
    kind, file, config = parts(name)
    content = torch.load(file, weights_only=True)
    changed = change(content)
    torch.save(content if changed is None else changed, folder / "changed.pth")
    tiny.write_vocabulary(folder)
    return f"{kind}:{folder / 'changed.pth'}?config={config}"


@pytest.mark.parametrize("kind", KINDS)
def test_vectors_equal_the_authors_code(names: dict[str, str], kind: str) -> None:
    encoder, reference = load(names[kind], device="cpu"), tiny.REFERENCE[kind]
    assert [list(one) for one in encoder.pretrained_tower("text").prepare_all(tiny.CAPTIONS)] == reference["ids"]  # type: ignore[attr-defined]
    images, texts = encoder.encode_images(tiny.photos()), encoder.encode_texts(tiny.CAPTIONS)
    difference = max(
        np.abs(images - np.array(reference["image"])).max(), np.abs(texts - np.array(reference["text"])).max()
    )
    print(f"{kind} vectors {difference:.1e}")
    assert difference <= 1e-5 and images.dtype == texts.dtype == np.float32
    assert np.std(reference["image"], axis=0).mean() > 0.1 and np.std(reference["text"], axis=0).mean() > 0.1
    assert encoder.temperature == pytest.approx(0.07)  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", KINDS)
def test_scores_equal_the_authors_code(names: dict[str, str], kind: str) -> None:
    cross_encoder, expected = load_cross_encoder(names[kind], device="cpu"), np.array(tiny.REFERENCE[kind]["match"])
    pairs = np.random.RandomState(0).permutation([(i, t) for i in range(5) for t in range(8)])
    photos = tiny.photos()
    scores = cross_encoder.score_pairs([photos[i] for i, _ in pairs], [tiny.CAPTIONS[t] for _, t in pairs])
    difference = np.abs(scores - expected[pairs[:, 0], pairs[:, 1]]).max()
    print(f"{kind} matching {difference:.1e}")
    assert difference <= 1e-5 and scores.dtype == np.float32
    assert expected.std(axis=0).mean() > 0.01 and expected.std(axis=1).mean() > 0.01  # reads image and text
    assert cross_encoder.card.family == f"{kind}-itm"


@pytest.mark.parametrize("kind", KINDS)
def test_a_score_does_not_depend_on_the_other_pairs(names: dict[str, str], kind: str) -> None:
    """A text alone is not padded; beside a longer one it is."""
    cross_encoder = load_cross_encoder(names[kind], device="cpu")
    photo, short, long = tiny.photos()[0], tiny.CAPTIONS[0], tiny.CAPTIONS[6]
    alone = cross_encoder.score_pairs([photo], [short])
    assert np.abs(cross_encoder.score_pairs([photo, photo], [short, long])[:1] - alone).max() <= 1e-6


@pytest.mark.parametrize("kind", KINDS)
def test_weights_for_training_only_change_nothing(names: dict[str, str], kind: str, tmp_path: Path) -> None:
    """Pre-training checkpoints: the text encoder one level down, a head for masked words, optimiser states."""

    def pretrained(content: dict[str, Any]) -> None:
        content["model"] = {
            key.replace("text_encoder.", "text_encoder.bert."): one for key, one in content["model"].items()
        }
        content["model"]["text_encoder.cls.predictions.bias"] = torch.zeros(92)
        content["optimizer"] = {"state": {0: {"step": 1}}, "param_groups": [{"lr": 1e-5}]}

    one, other = load(names[kind], device="cpu"), load(rewritten(names[kind], tmp_path, pretrained), device="cpu")
    assert one.card.weights == other.card.weights
    assert np.array_equal(one.encode_texts(tiny.CAPTIONS), other.encode_texts(tiny.CAPTIONS))
    bare = load(rewritten(names[kind], tmp_path, lambda content: content["model"]), device="cpu")
    assert bare.card.weights == one.card.weights


@pytest.mark.parametrize("kind", KINDS)
def test_weights_that_do_not_fit_are_listed_in_one_error(names: dict[str, str], kind: str, tmp_path: Path) -> None:
    def broken(content: dict[str, Any]) -> None:
        model = content["model"]
        del model["vision_proj.bias"], model["text_encoder.encoder.layer.3.crossattention.self.key.weight"]
        model["text_proj.weight"] = torch.zeros(24, 31)
        model["something.else"] = torch.zeros(2, 3)

    with pytest.raises(EncoderError) as caught:
        load(rewritten(names[kind], tmp_path, broken), device="cpu")
    text = str(caught.value)
    width = {"xvlm": 64, "albef": 48}[kind]
    assert "the weights are not those of this model; 1 of another shape, 2 missing, 1 unexpected (4 faults)" in text
    assert "missing: vision_proj.bias (24,)" in text
    assert f"missing: text_encoder.encoder.layer.3.crossattention.self.key.weight (32, {width})" in text
    assert "wrong shape: text_proj.weight is (24, 31), expected (24, 32)" in text
    assert "unexpected: something.else (2, 3)" in text


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_configuration_the_published_sizes_are_expected(names: dict[str, str], kind: str) -> None:
    with pytest.raises(EncoderError, match=r"patch_embed.proj.bias is \((16|48),\), expected \((128|768),\)"):
        load(names[kind].partition("?")[0], device="cpu")


def test_a_file_with_code_in_it_is_not_run(names: dict[str, str], tmp_path: Path) -> None:
    def hostile(content: dict[str, Any]) -> None:
        content["args"] = Path("/")  # an object: reading it would call a class

    with refused(EncoderError, "pathlib", code="holds-more-weights-plain"):
        load(rewritten(names["albef"], tmp_path, hostile), device="cpu")


def test_files_that_are_no_checkpoints(names: dict[str, str], tmp_path: Path) -> None:
    kind, file, config = parts(names["xvlm"])
    with refused(EncoderError, "none.pth", code="no-file"):
        load(f"xvlm:{tmp_path / 'none.pth'}", device="cpu")
    cut = tmp_path / "cut.pth"
    cut.write_bytes(file.read_bytes()[:20_000])
    with refused(EncoderError, "cut.pth"):
        load(f"xvlm:{cut}?config={config}", device="cpu")
    with refused(EncoderError, code="holds-no-weights-name"):
        load(rewritten(names[kind], tmp_path, lambda content: [1, 2]), device="cpu")


def test_the_vocabulary(names: dict[str, str], tmp_path: Path) -> None:
    kind, file, config = parts(names["xvlm"])
    moved = tmp_path / "moved" / file.name
    moved.parent.mkdir()
    moved.write_bytes(file.read_bytes())
    name = f"{kind}:{moved}?config={config}"
    with refused(EncoderError, "vocab.txt", code="no-vocabulary"):
        load(name, device="cpu")
    expected = load(names["xvlm"], device="cpu")
    by_file = load(f"{name}&tokenizer={tiny.write_vocabulary(tmp_path)}", device="cpu")
    by_folder = load(f"{name}&tokenizer={tmp_path}", device="cpu")
    beside = moved.parent / "bert-base-uncased"
    beside.mkdir()
    tiny.write_vocabulary(beside)
    for encoder in (by_file, by_folder, load(name, device="cpu")):
        assert encoder.card.text_preprocessing == expected.card.text_preprocessing
    by_file.pretrained_tower("text").reader.prepare.__self__._tokenizer.save_pretrained(tmp_path / "fast")  # type: ignore[attr-defined]
    (tmp_path / "fast" / "vocab.txt").unlink(missing_ok=True)
    fast = load(f"{name}&tokenizer={tmp_path / 'fast'}", device="cpu")
    assert np.array_equal(fast.encode_texts(tiny.CAPTIONS), expected.encode_texts(tiny.CAPTIONS))


def test_configurations_that_cannot_be_followed(names: dict[str, str], tmp_path: Path) -> None:
    _, file, config = parts(names["xvlm"])
    text = config.read_text()

    def with_config(content: str, match: str) -> None:
        (tmp_path / "own.yaml").write_text(content)
        with pytest.raises(EncoderError, match=match):
            load(f"xvlm:{file}?config={tmp_path / 'own.yaml'}", device="cpu")

    with_config(text, r"names files that are not there \(2 faults\)")
    with_config("use_clip_vit: True", "CLIP's ViT or DeiT is not read")
    with_config("embed_dim: many", "embed_dim: 'many' is not a positive whole number")
    with_config("image_res: 32\nvision_config: {image_res: 64}", "image_res is 32 and 64")
    with_config("[1, 2]", "holds list, not keys and values")
    with_config("a: [", "not YAML")
    with refused(EncoderError, code="no-configuration-file"):
        load(f"xvlm:{file}?config={tmp_path / 'none.yaml'}", device="cpu")


def test_the_window_gives_the_input_size(names: dict[str, str], tmp_path: Path) -> None:
    """Pre-trained at 224 pixels with windows of 7: the weights say so, and no configuration is needed for it.

    Here: windows of 4 in three stages on patches of 4 are 4 · 4 · 2² = 64 pixels.
    """
    _, file, config = parts(names["xvlm"])
    (tmp_path / "own.json").write_text(
        json.dumps(
            {
                "embed_dim": 24,
                "text_config": json.loads((config.parent / "config_bert.json").read_text()),
                "vision_config": {"vision_width": 64, "embed_dim": 16, "depths": [2, 2, 2], "num_heads": [2, 4, 8]},
            }
        )
    )
    encoder = load(f"xvlm:{file}?config={tmp_path / 'own.json'}", device="cpu")
    assert encoder.card.image_preprocessing["size"] == [64, 64]
    assert encoder.card.weights == load(names["xvlm"], device="cpu").card.weights


def test_albef_at_another_size(names: dict[str, str]) -> None:
    """The position embeddings of 4 × 4 patches are resized to 6 × 6; [CLS] keeps its own."""
    encoder: Any = load(f"{names['albef']}&image_size=96", device="cpu")
    assert encoder.card.image_preprocessing["size"] == [96, 96]
    found = encoder.pretrained_tower("image").network.tower.vit.pos_embed.detach()
    before = tiny.weights({"visual_encoder.pos_embed": [1, 17, 48]})["visual_encoder.pos_embed"]
    grid = before[0, 1:].reshape(4, 4, 48).permute(2, 0, 1)[None]
    grown = torch.nn.functional.interpolate(grid, scale_factor=1.5, mode="bicubic")[0].permute(1, 2, 0)
    assert torch.equal(found[0, 0], before[0, 0])
    assert torch.allclose(found[0, 1:].reshape(6, 6, 48), grown, atol=1e-6)
    assert encoder.encode_images(tiny.photos()).shape == (5, 24)
    with refused(EncoderError, "100", "16", code="pixels-no-whole-number", hint=False):
        load(f"{names['albef']}&image_size=100", device="cpu")


def test_options_are_part_of_the_card(names: dict[str, str]) -> None:
    plain = load(names["xvlm"], device="cpu").card
    assert (plain.text_preprocessing["max_length"], plain.text_preprocessing["max_words"]) == (40, 30)
    assert load(names["albef"], device="cpu").card.text_preprocessing["max_length"] == 30
    for option in ("max_length=20", "max_words=5", "template=a photo of {}"):
        assert load(f"{names['xvlm']}&{option}", device="cpu").card.fingerprint != plain.fingerprint
    with refused(EncoderError, "65", "64", code="max-length-more-tokens"):
        load(f"{names['xvlm']}&max_length=65", device="cpu")
    with refused(EncoderError, "unknown option", "image_size"):
        load(f"{names['xvlm']}&image_size=96", device="cpu")


@pytest.mark.parametrize("kind", KINDS)
def test_an_ending_is_read_whole(names: dict[str, str], kind: str) -> None:
    """Six digits with spaces are six words and six tokens; 30 words and 30 or 40 tokens are the limits."""
    encoder: Any = load(names[kind], device="cpu")
    ending = "3 1 4 1 5 9"
    texts = [*tiny.CAPTIONS, "", "dog " * 23, "dog " * 24, "dog - dog " * 20, "dogs, " * 20]
    pretrained_tower = encoder.pretrained_tower("text")
    last = [int(one) for one in pretrained_tower.prepare_all([ending])[0][1:]]
    for before, text in zip(texts, encoder.truncate(texts, ending), strict=True):
        assert before.startswith(text)
        assert list(pretrained_tower.prepare_all([f"{text} {ending}"])[0][-6:]) == last
    # 23 words and six are 29, 24 are 30: read whole by X-VLM; ALBEF has [CLS] and 29 tokens.
    whole, cut = encoder.truncate(["dog " * 24, "dog " * 25], ending)
    assert (whole.count("dog"), cut.count("dog")) == {"xvlm": (24, 24), "albef": (23, 23)}[kind]
    assert encoder.cross_encoder.truncate(["dog " * 25], ending) == [cut]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("modality", ["image", "text"])
def test_a_half_is_built_again_from_its_own_files(
    names: dict[str, str], kind: str, modality: Any, tmp_path: Path
) -> None:
    encoder: Any = load(names[kind], device="cpu")
    pretrained_tower = encoder.pretrained_tower(modality)
    for file, content in pretrained_tower.files().items():
        (tmp_path / file).write_bytes(content)
    module, _, function = PRETRAINED_TOWERS.get("fusion").partition(":")
    again = getattr(__import__(module, fromlist=[function]), function)(
        tmp_path, modality, json.loads(json.dumps(pretrained_tower.spec()))
    )
    again.network.load_state_dict(pretrained_tower.network.state_dict())
    again.network.eval()
    items = tiny.photos() if modality == "image" else tiny.CAPTIONS
    with torch.no_grad():
        one, other = (each.network(each.collate(each.prepare_all(items))) for each in (pretrained_tower, again))
    assert torch.equal(one, other) and again.preprocessing() == pretrained_tower.preprocessing()
    assert not {id(one) for one in encoder.pretrained_tower("image").network.parameters()} & {
        id(one) for one in encoder.pretrained_tower("text").network.parameters()
    }
    pretrained_tower.network.train()
    pretrained_tower.checkpoint_gradients()
    pretrained_tower.network(pretrained_tower.collate(pretrained_tower.prepare_all(items))).sum().backward()
    assert all(one.grad is not None for one in pretrained_tower.network.parameters())


@pytest.mark.parametrize("kind", KINDS)
def test_bfloat16_runs(names: dict[str, str], kind: str) -> None:
    exact, rough = (load(names[kind], device="cpu", dtype=dtype) for dtype in ("float32", "bfloat16"))
    photos = tiny.photos()
    for method, items in (("encode_images", photos), ("encode_texts", tiny.CAPTIONS)):
        near, far = getattr(rough, method)(items), getattr(exact, method)(items)
        assert near.dtype == np.float32 and 0 < np.abs(near - far).max() < 0.2
    assert exact.cross_encoder is not None and rough.cross_encoder is not None
    pairs = (photos, tiny.CAPTIONS[:5])
    assert 0 < np.abs(rough.cross_encoder.score_pairs(*pairs) - exact.cross_encoder.score_pairs(*pairs)).max() < 0.2


def test_nothing_in_nothing_out(names: dict[str, str]) -> None:
    encoder = load(names["xvlm"], device="cpu")
    assert encoder.encode_texts([]).shape == encoder.encode_images([]).shape == (0, 24)
    assert encoder.cross_encoder is not None and encoder.cross_encoder.score_pairs([], []).shape == (0,)
    # What the authors' code refuses is the empty caption: [CLS] alone.
    assert np.array_equal(encoder.encode_texts(["?!"]), encoder.encode_texts([""]))


def test_plain_captions_by_hand() -> None:
    for kind in KINDS:
        assert [first_words(plain_caption(one), 30) for one in tiny.CAPTIONS] == tiny.REFERENCE[kind]["captions"]
    assert plain_caption("A man's T-shirt, blue!") == "a mans t shirt blue"
    assert plain_caption(" <person> and/or <PERSON>\n") == "person and or person"
    assert first_words("a b c", 2) == "a b" and first_words("", 3) == ""


@given(st.text(alphabet="aB ,-/<>\t\n'person1", max_size=40))
def test_a_plain_caption_is_plain_already(text: str) -> None:
    once = plain_caption(text)
    assert not set(once) & set(",.'!?\"()*#:;~-/") and "  " not in once and once == once.lower()
    if "<" not in once:
        assert plain_caption(once) == once


def test_images_are_squeezed_not_cut(names: dict[str, str]) -> None:
    """Resizing to 64 × 64 whatever the sides, then (value / 255 − mean) / deviation with CLIP's numbers."""
    pretrained_tower = load(names["xvlm"], device="cpu").pretrained_tower("image")  # type: ignore[attr-defined]
    photo = Image.new("RGB", (300, 20), (255, 0, 51))
    pixels = pretrained_tower.collate(pretrained_tower.prepare_all([photo])).numpy()
    # (1 − 0.48145466) / 0.26862954; (0 − 0.4578275) / 0.26130258; (0.2 − 0.40821073) / 0.27577711
    assert pixels.shape == (1, 3, 64, 64)
    assert np.allclose(pixels[0, :, 0, 0], [1.93033625, -1.75209713, -0.75499641], atol=1e-6)
