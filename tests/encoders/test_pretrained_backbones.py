"""Towers of loaded encoders as backbones: same vectors, gradients everywhere, a checkpoint that stands by itself."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import pytest
import tiny_fusion
import tiny_openclip
import tiny_sentence
import tiny_transformers as tiny
import torch
import transformers
from safetensors.torch import save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers import models as modules
from torch import Tensor, nn

from refusals import refused
from visir.collections.images import ImageReader, to_rgb
from visir.collections.scenes.generate import scenes
from visir.encoders.base import Encoder
from visir.encoders.loading import load
from visir.encoders.models.towers import TowersEncoder, write_towers
from visir.encoders.towers.base import Head, HeadSpec, Tower
from visir.encoders.towers.pretrained_backbone import PretrainedBackbone, own_temperature
from visir.errors import EncoderError
from visir.records import Modality

TRANSFORMERS = ("clip", "altclip", "align", "groupvit", "siglip", "blip")
OPENCLIP = ("tiny-RN50-quickgelu", "tiny-ViT", "tiny-CoCa", "tiny-timm", "tiny-bert")
PRETRAINED_TOWERS: list[tuple[str, Modality]] = [
    *((kind, side) for kind in (*TRANSFORMERS, *OPENCLIP, *tiny_fusion.KINDS) for side in ("image", "text")),  # type: ignore[misc]
    ("sentence", "text"),
]


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What `load` takes for each tiny model; all lies under one folder."""
    folder = tmp_path_factory.mktemp("models")
    for kind in TRANSFORMERS:
        tiny.save(kind, folder / kind)
    found = {kind: str(folder / kind) for kind in TRANSFORMERS}
    (folder / "zoo").mkdir()
    zoo = tiny_openclip.save_zoo(folder / "zoo")
    found |= {name: f"openclip:{name}/{zoo}/{name.removesuffix('-quickgelu')}.safetensors" for name in OPENCLIP[:3]}
    for name in OPENCLIP[3:]:
        found[name] = _save_own_format(folder / name, name)
    sentence = tiny_sentence.save(
        folder / "sentence", modules.Dense(32, 20), modules.Normalize(), **tiny_sentence.PROMPT
    )
    found["sentence"] = f"st:{sentence}"
    return found | {kind: tiny_fusion.write(kind, folder / kind) for kind in tiny_fusion.KINDS}


def _save_own_format(folder: Path, name: str) -> str:
    """A folder in open_clip's own format: a vision tower of timm, or a text tower and tokenizer of transformers."""
    folder.mkdir()
    config: dict[str, Any] = {**tiny_openclip.ARCHITECTURES["tiny-ViT"], "custom_text": True}
    if name == "tiny-timm":
        config["vision_cfg"] = {"timm_model_name": "test_vit", "image_size": 160, "timm_proj": "linear"}
    else:
        words = tiny.wordpiece_tokenizer(folder, limit=40)
        bert = transformers.BertConfig(**tiny._layers(), vocab_size=words, max_position_embeddings=40)
        bert.save_pretrained(folder / "bert")
        config["text_cfg"] = {
            "hf_model_name": str(folder / "bert"),
            "hf_tokenizer_name": str(folder),
            "hf_proj_type": "mlp",
            "hf_pooler_type": "mean_pooler",
            "context_length": 40,
        }
    settings = {"mean": [0.5, 0.4, 0.3], "std": [0.25, 0.25, 0.25], "interpolation": "bilinear"}
    (folder / "open_clip_config.json").write_text(json.dumps({"model_cfg": config, "preprocess_cfg": settings}))
    torch.manual_seed(4)
    model = open_clip.create_model(f"local-dir:{folder}", load_weights=False, pretrained_text=False)
    tiny_openclip.save_weights(model, folder / "open_clip_model.safetensors")
    return f"openclip:local-dir:{folder}"


LOADED: dict[tuple[str, str], Encoder] = {}


def encoder_of(names: dict[str, str], kind: str, dtype: str = "float32") -> Encoder:
    """Loaded once: a backbone has weights of its own."""
    key = names[kind], dtype
    if key not in LOADED:
        LOADED[key] = load(names[kind], device="cpu", dtype=dtype)
    return LOADED[key]


def items(side: Modality) -> list[Any]:
    return [to_rgb(photo) for photo in tiny.photos()] if side == "image" else tiny.CAPTIONS


def embed(encoder: Encoder, side: Modality) -> np.ndarray:
    return encoder.encode_images(items("image")) if side == "image" else encoder.encode_texts(items("text"))


def batch(backbone: PretrainedBackbone) -> Any:
    return backbone.collate([backbone.prepare(item) for item in items(backbone.modality)])


def without_dropout(backbone: nn.Module) -> None:
    """Every dropout off, those inside attention too, which are numbers and not modules."""
    for module in backbone.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        for name in ("dropout", "attention_dropout", "dropout_p"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)


@pytest.mark.parametrize(("kind", "side"), PRETRAINED_TOWERS)
def test_the_vectors_of_the_encoder_with_gradients_for_every_weight(
    names: dict[str, str], kind: str, side: Modality
) -> None:
    encoder = encoder_of(names, kind)
    expected = embed(encoder, side)
    backbone = PretrainedBackbone.of(encoder, side)
    assert backbone.modality == side and backbone.outputs == encoder.dimension == expected.shape[1]
    backbone.eval()
    assert np.abs(backbone(batch(backbone)).detach().numpy() - expected).max() <= 1e-6 * max(
        1.0, np.abs(expected).max()
    )
    backbone.train()
    without_dropout(backbone)
    vectors = backbone(batch(backbone))
    if (kind, side) != ("groupvit", "image"):  # its groups are drawn at random in training (Gumbel)
        assert np.abs(vectors.detach().numpy() - expected).max() <= 1e-6 * max(1.0, np.abs(expected).max())
    torch.manual_seed(0)
    (vectors * torch.randn_like(vectors)).sum().backward()
    dead = [name for name, weight in backbone.named_parameters() if weight.grad is None or not weight.grad.any()]
    # A softmax is the same when all keys are shifted alike, so the gradient of their bias is zero up to rounding, and
    # may be zero exactly.
    assert [name for name in dead if not name.endswith(("k_proj.bias", "key.bias"))] == []
    assert all(weight.dtype == torch.float32 for weight in backbone.parameters())
    assert np.array_equal(embed(encoder, side), expected)


def test_a_half_holds_nothing_of_the_other(names: dict[str, str]) -> None:
    encoder = encoder_of(names, "clip")
    sizes = [
        sum(one.numel() for one in PretrainedBackbone.of(encoder, side).parameters()) for side in ("image", "text")
    ]
    whole = transformers.CLIPModel.from_pretrained(names["clip"])
    assert sum(sizes) == whole.num_parameters() - 1  # the temperature belongs to neither
    keys = PretrainedBackbone.of(encoder, "image").state_dict()
    assert {key.split(".")[2] for key in keys} == {"vision_model", "visual_projection"}


def test_training_the_backbone_leaves_the_encoder_alone_and_copies_are_independent(names: dict[str, str]) -> None:
    encoder = encoder_of(names, "clip")
    before = embed(encoder, "text")
    backbone = PretrainedBackbone.of(encoder, "text")
    other = copy.deepcopy(backbone)  # as averaging weights does
    with torch.no_grad():
        for weight in backbone.parameters():
            weight.add_(0.01)
    assert np.array_equal(embed(encoder, "text"), before)
    assert np.abs(other.eval()(batch(other)).detach().numpy() - before).max() <= 1e-6 * np.abs(before).max()
    assert np.abs(backbone.eval()(batch(backbone)).detach().numpy() - before).max() > 1e-3
    assert list(backbone.pretrained_modules()) == [backbone.network]


def test_half_precision_becomes_float32(names: dict[str, str]) -> None:
    encoder = encoder_of(names, "clip", dtype="bfloat16")
    backbone = PretrainedBackbone.of(encoder, "image")
    assert {weight.dtype for weight in backbone.parameters()} == {torch.float32}
    assert backbone(batch(backbone)).dtype == torch.float32
    assert encoder.embed_images([backbone.prepare(items("image")[0])]).dtype == np.float32  # still computes in bfloat16
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.isfinite(backbone(batch(backbone)).float()).all()
    assert backbone.bfloat16()(batch(backbone)).dtype == torch.bfloat16  # as an encoder that is asked to


@pytest.mark.parametrize("kind", ["clip", "altclip", "align", "siglip"])
def test_collating_pads_as_the_tokenizer_does(names: dict[str, str], kind: str) -> None:
    backbone = PretrainedBackbone.of(encoder_of(names, kind), "text")
    tokenizer = transformers.AutoTokenizer.from_pretrained(names[kind])
    longest = kind in ("clip", "altclip")
    limit = {"clip": 77, "altclip": 128, "align": 64, "siglip": 64}[kind]
    expected = tokenizer(
        tiny.CAPTIONS,
        padding="longest" if longest else "max_length",
        truncation=True,
        max_length=limit,
        return_tensors="pt",
        return_attention_mask=True,
    )
    found = batch(backbone)
    assert set(found) == ({"input_ids"} if kind == "siglip" else {"input_ids", "attention_mask"})
    assert all(torch.equal(found[name], expected[name]) for name in found)
    assert backbone.prepare("a dog").dtype == np.int32


def test_own_temperatures(names: dict[str, str]) -> None:
    for kind in ("clip", "altclip", "groupvit"):  # the logarithm of the inverse is stored: 2.6592 for 0.07
        assert own_temperature(encoder_of(names, kind)) == pytest.approx(0.07, rel=1e-4)
    assert own_temperature(encoder_of(names, "tiny-ViT")) == pytest.approx(0.07)
    align = transformers.AlignModel.from_pretrained(names["align"])  # the temperature itself is stored
    assert own_temperature(encoder_of(names, "align")) == pytest.approx(float(align.temperature.detach()))
    siglip = transformers.SiglipModel.from_pretrained(names["siglip"])
    assert own_temperature(encoder_of(names, "siglip")) == pytest.approx(1 / float(siglip.logit_scale.exp().detach()))
    assert own_temperature(encoder_of(names, "blip")) is None and own_temperature(encoder_of(names, "sentence")) is None


def test_running_statistics_stay(names: dict[str, str]) -> None:
    backbone = PretrainedBackbone.of(encoder_of(names, "tiny-RN50-quickgelu"), "image").train()
    before = {name: value.clone() for name, value in backbone.named_buffers() if "running" in name}
    alone = backbone(batch(backbone)[:1])
    assert torch.allclose(backbone(batch(backbone))[:1], alone, atol=1e-5)  # whoever else is in the batch
    assert before and all(
        torch.equal(value, before[name]) for name, value in backbone.named_buffers() if name in before
    )


@pytest.mark.parametrize(
    ("kind", "side"), [("clip", "image"), ("clip", "text"), ("siglip", "image"), ("tiny-ViT", "image"),
                       ("tiny-ViT", "text"), ("tiny-CoCa", "text"), ("tiny-bert", "text"), ("sentence", "text")],
)  # fmt: skip
def test_checkpointing_gives_the_same_gradients(
    names: dict[str, str], kind: str, side: Modality, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder, gradients, calls = encoder_of(names, kind), [], []
    plain = torch.utils.checkpoint.checkpoint

    def counted(*args: Any, **options: Any) -> Any:
        calls.append(args)
        return plain(*args, **options)

    monkeypatch.setattr("visir.encoders.towers.pretrained_backbone.checkpoint", counted)
    monkeypatch.setattr("open_clip.transformer.checkpoint", counted)
    for checkpointing in (False, True):
        backbone = PretrainedBackbone.of(encoder, side, checkpointing=checkpointing).train()
        without_dropout(backbone)
        loss = backbone(batch(backbone)).square().sum()
        loss.backward()
        gradients.append(
            torch.cat([weight.grad.flatten() for weight in backbone.parameters() if weight.grad is not None])
        )
    assert (gradients[0] - gradients[1]).abs().max() <= 1e-5 * gradients[0].abs().max()
    assert len(calls) == 2  # one per layer


def test_what_cannot_be_checkpointed_says_so(names: dict[str, str]) -> None:
    with refused(EncoderError, "ModifiedResNet of open_clip", code="no-switch-computing-activations") as caught:
        PretrainedBackbone.of(encoder_of(names, "tiny-RN50-quickgelu"), "image", checkpointing=True)
    assert "optimiser.chunk" in caught.value.hint


def test_what_cannot_be_tuned_says_so(names: dict[str, str], tmp_path: Path) -> None:
    for name, family, side in (("pixels", "pixels", "image"), ("bow", "bag-of-words", "text")):
        with refused(EncoderError, family, code="cannot-tuned-take-no") as caught:
            PretrainedBackbone.of(load(name), side)  # type: ignore[arg-type]
        assert 'tower = "frozen"' in caught.value.hint and "transformers, openclip, sentence" in caught.value.hint
        with refused(EncoderError, code="cannot-tuned-take-no"):
            own_temperature(load(name))
    with refused(EncoderError, "images", code="encodes-no"):
        PretrainedBackbone.of(encoder_of(names, "sentence"), "image")
    words = modules.StaticEmbedding(transformers.AutoTokenizer.from_pretrained(names["clip"]), embedding_dim=8)
    SentenceTransformer(modules=[words], device="cpu").save(str(tmp_path / "words"))
    with refused(EncoderError, "StaticEmbedding", code="sentence-encoder-begins-cannot"):
        PretrainedBackbone.of(load(f"st:{tmp_path / 'words'}", device="cpu"), "text")


RELOAD = """
import json, socket, sys
from pathlib import Path
import numpy as np
import torch
from safetensors.torch import load_file

def refuse(*_, **__):
    raise AssertionError("the network was asked")

socket.socket.connect = refuse
sys.path.insert(0, sys.argv[2])
import tiny_transformers as tiny
from visir.collections.images import to_rgb
from visir.encoders.towers.pretrained_backbone import PretrainedBackbone

for folder in sorted(Path(sys.argv[1]).iterdir()):
    torch.manual_seed(11)
    backbone = PretrainedBackbone.load(folder / "backbone", json.loads((folder / "spec.json").read_text()))
    drawn = torch.rand(1)
    torch.manual_seed(11)
    assert torch.equal(drawn, torch.rand(1)), "building the architecture moved torch's random numbers"
    backbone.load_state_dict(load_file(folder / "weights.safetensors"))
    backbone.eval()
    items = [to_rgb(one) for one in tiny.photos()] if backbone.modality == "image" else tiny.CAPTIONS
    with torch.no_grad():
        vectors = backbone(backbone.collate([backbone.prepare(item) for item in items])).numpy()
    expected = np.load(folder / "expected.npy")
    difference = float(np.abs(vectors - expected).max() / np.abs(expected).max())
    (folder / "again").mkdir()
    backbone.save(folder / "again")
    same = [sorted(one.relative_to(folder / top).as_posix() for one in (folder / top).rglob("*") if one.is_file())
            for top in ("backbone", "again")]
    card = json.loads((folder / "card.json").read_text())
    print(json.dumps([folder.name, difference, same[0] == same[1], backbone.preprocessing() == card]))
"""


def test_a_checkpoint_needs_neither_hub_nor_network_nor_the_first_folder(names: dict[str, str], tmp_path: Path) -> None:
    """All families, trained a little, in another process, after the folders they were loaded from are gone."""
    first, out = Path(names["clip"]).parent, tmp_path / "out"
    backbones = {
        f"{kind}-{side}": PretrainedBackbone.of(encoder_of(names, kind), side) for kind, side in PRETRAINED_TOWERS
    }
    hidden = first.rename(first.with_name("hidden"))
    try:
        for name, backbone in backbones.items():
            (out / name / "backbone").mkdir(parents=True)
            with torch.no_grad():
                for weight in backbone.parameters():
                    weight.mul_(1.01)
                np.save(out / name / "expected.npy", backbone.eval()(batch(backbone)).numpy())
            backbone.save(out / name / "backbone")
            save_file(
                {key: one.clone() for key, one in backbone.state_dict().items()}, out / name / "weights.safetensors"
            )
            (out / name / "spec.json").write_text(json.dumps(backbone.spec()))
            (out / name / "card.json").write_text(json.dumps(backbone.preprocessing()))
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "no-cache")}
        command = [sys.executable, "-c", RELOAD, str(out), str(Path(__file__).parent)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
    finally:
        hidden.rename(first)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row[0] for row in rows] == sorted(f"{kind}-{side}" for kind, side in PRETRAINED_TOWERS)
    for name, difference, saved_again, same_card in rows:
        assert difference <= 1e-6 and saved_again and same_card, name
    assert "initialized" not in done.stderr and "No pretrained weights" not in done.stderr


def test_a_checkpoint_of_two_tuned_towers_is_an_encoder(names: dict[str, str], tmp_path: Path) -> None:
    """CLIP's image tower beside a sentence encoder under a linear head: loaded by the folder's name alone."""
    backbones = {
        "image": PretrainedBackbone.of(encoder_of(names, "clip"), "image"),
        "text": PretrainedBackbone.of(encoder_of(names, "sentence"), "text"),
    }
    heads = [Head(HeadSpec(inputs=24, outputs=24, identity=True)), Head(HeadSpec(inputs=20, outputs=24))]
    towers = {side: Tower(backbone, head) for (side, backbone), head in zip(backbones.items(), heads, strict=True)}
    written = TowersEncoder(towers, {}, device="cpu")
    write_towers(tmp_path, written)
    found = load(tmp_path, device="cpu")
    assert found.card.image_preprocessing == encoder_of(names, "clip").card.image_preprocessing
    assert found.card.text_preprocessing == encoder_of(names, "sentence").card.text_preprocessing
    for side in ("image", "text"):
        expected = embed(written, side)
        assert np.abs(embed(found, side) - expected).max() <= 1e-6
    assert np.abs(embed(found, "image") - embed(encoder_of(names, "clip"), "image")).max() <= 1e-5
    rough = load(tmp_path, device="cpu", dtype="bfloat16")
    assert np.isfinite(embed(rough, "image")).all() and np.isfinite(embed(rough, "text")).all()


def test_another_vocabulary_is_refused(names: dict[str, str], tmp_path: Path) -> None:
    backbone = PretrainedBackbone.of(encoder_of(names, "clip"), "text")
    backbone.save(tmp_path)
    merges = (tmp_path / "merges.txt").read_text().splitlines()
    (tmp_path / "merges.txt").write_text("\n".join([merges[0], *merges[2:], merges[1]]) + "\n")
    with refused(EncoderError, code="tokenizer-gives-other-ids"):
        PretrainedBackbone.load(tmp_path, backbone.spec())


def infonce(images: Tensor, texts: Tensor, temperature: float) -> Tensor:
    logits = nn.functional.normalize(images) @ nn.functional.normalize(texts).T / temperature
    matches = torch.arange(len(logits))
    return (nn.functional.cross_entropy(logits, matches) + nn.functional.cross_entropy(logits.T, matches)) / 2


def test_fine_tuning_lowers_the_loss_on_scenes(names: dict[str, str]) -> None:
    encoder = encoder_of(names, "clip")
    collection = scenes(40, seed=0, size=64)
    reader, captions = ImageReader(collection), collection.captions["text"].to_pylist()[::5]  # the first of each image
    backbones = {side: PretrainedBackbone.of(encoder, side).train() for side in ("image", "text")}
    images = backbones["image"].collate([backbones["image"].prepare(reader.open(row)) for row in range(40)])
    texts = backbones["text"].collate([backbones["text"].prepare(text) for text in captions])
    temperature = own_temperature(encoder)
    assert temperature is not None
    weights = [weight for backbone in backbones.values() for weight in backbone.parameters()]
    optimiser = torch.optim.AdamW(weights, lr=1e-3)
    losses = []
    for _ in range(15):
        loss = infonce(backbones["image"](images), backbones["text"](texts), temperature)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    print("InfoNCE on 40 scenes", [f"{one:.2f}" for one in losses])
    assert losses[-1] < 0.5 * losses[0]
