"""How far visir's vectors and matching scores are from those of the libraries that the models come from.

    OMP_NUM_THREADS=1 python benchmarks/parity.py

A small model of each architecture, random seeded weights, is saved as its library saves models, with an image processor
and a tokenizer. visir gets the folder, the photos and the captions. The library gets the same: its own processor makes
pixels and token ids of them, its own forward pass the vectors, one call for all. Differences are the largest of any
number, float32:

- vectors of images, of texts: what the model projects, before normalisation
- cosines: of all images with all texts, by the library's whole forward pass
- matching scores: the logit of "match" of all pairs

transformers has two image processors, one on Pillow and one on torchvision, and both are compared. Two things say that
the comparison could fail. "Spread" is the mean standard deviation, over the inputs, of what is compared: a model that
gave one vector to everything would agree with anything. And "Pillow against torchvision" is visir's vectors by the one
beside the library's by the other, which differ by a grey level here and there.

X-VLM and ALBEF have no library. Their rows are what their tests print, which compare with figures that the authors'
code has made (tests/encoders/fusion_reference.json: 5 photos, 8 captions, 40 pairs).
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import open_clip
import torch
import transformers
from numpy.typing import NDArray
from PIL import Image
from safetensors.torch import save_file

import visir

Vectors = NDArray[Any]
CAPTIONS = [
    "A dog runs across the green grass.",
    "Two children in RED jackets climb a snowy hill, laughing!",
    "a man's bicycle leans against an old brick wall",
    "1,234 {} braces and \\ backslashes",
    "café naïve façade",
    "犬が草の上を走る 🐕",
    "well-known   spaces\tand\ttabs",
    "dog",
    "",
    "the quick brown fox jumps over the lazy dog " * 30,
]
SIZES = [(640, 480), (375, 500), (224, 224), (37, 53), (301, 97), (11, 400), (5, 3), (64, 64)]
LAYERS = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4}
VISION = LAYERS | {"image_size": 64, "patch_size": 16}
SPACE = 48
SEED = 17


@dataclass(frozen=True)
class Row:
    """One comparison: `found` by visir, `expected` by the library."""

    model: str
    what: str
    found: Vectors
    expected: Vectors

    def __str__(self) -> str:
        apart = np.abs(self.found - self.expected).max()
        return f"{self.model:<20}{self.what:<40}{_figure(apart):>9}{self.expected.std(axis=0).mean():>9.2f}"


def main() -> None:
    begun = time.process_time()
    logging.disable(logging.WARNING)  # open_clip's, that these weights are random
    transformers.utils.logging.disable_progress_bar()
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, open_clip {open_clip.__version__}")
    print(f"{'model':<20}{'what':<40}{'max |d|':>9}{'spread':>9}")
    with TemporaryDirectory() as folder:
        for kind in KINDS:
            for row in compare(kind, Path(folder) / kind):
                print(row)
        for architecture in ARCHITECTURES:
            for row in compare_openclip(architecture, Path(folder)):
                print(row)
    for model, what, figure in sorted(fused()):
        print(f"{model:<20}{what:<40}{_figure(figure):>9}")
    print(f"{time.process_time() - begun:.0f} s of processor time, and that of the tests of X-VLM and ALBEF")


def compare(kind: str, folder: Path) -> Iterator[Row]:
    """A model of transformers, through both image processors."""
    name, make, processor_of = KINDS[kind]
    folder.mkdir()
    torch.manual_seed(SEED)
    model = make(folder).eval()
    spread(model)
    model.save_pretrained(folder)
    settings = json.loads((folder / "preprocessor_config.json").read_text())
    by_pillow: Vectors = np.empty(0)
    for backend, suffix in (("pil", "Pil"), ("torchvision", "")):
        pixels = getattr(transformers, settings["image_processor_type"] + suffix).from_pretrained(folder)
        processor = processor_of(pixels, tokenizer(folder))
        asked = {"padding": "max_length" if kind == "align" else True, "truncation": True}
        with torch.no_grad():
            inputs = processor(text=CAPTIONS, images=photos(), return_tensors="pt", **asked)
            encoder = visir.load(f"{folder}?processor={backend}", device="cpu")
            images, texts = encoder.encode_images(photos()), encoder.encode_texts(CAPTIONS)
            expected = blip(model, inputs) if kind == "blip" else dual(model, inputs)
            yield Row(name, f"vectors of images ({backend})", images, expected[0])
            if backend == "pil":
                by_pillow = images
                yield Row(name, "vectors of texts", texts, expected[1])  # they do not depend on the backend
            else:
                yield Row(name, "images, Pillow against torchvision", by_pillow, expected[0])
            yield Row(name, f"cosines ({backend})", unit(images) @ unit(texts).T, expected[2])
            if encoder.cross_encoder is not None:
                pairs = [(image, text) for image in photos() for text in CAPTIONS]
                scores = encoder.cross_encoder.score_pairs([image for image, _ in pairs], [text for _, text in pairs])
                matched = matching(model, inputs)
                yield Row(name, f"matching scores ({backend})", scores.reshape(matched.shape), matched)


def dual(model: Any, inputs: Any) -> tuple[Vectors, Vectors, Vectors]:
    """Vectors of images and texts, and cosines (images, texts) by the whole forward pass."""
    words = {name: inputs[name] for name in ("input_ids", "attention_mask", "token_type_ids") if name in inputs}
    images = model.get_image_features(pixel_values=inputs["pixel_values"]).pooler_output
    texts = model.get_text_features(**words).pooler_output
    whole = model(pixel_values=inputs["pixel_values"], **words)
    return images.numpy(), texts.numpy(), (whole.image_embeds @ whole.text_embeds.T).numpy()


def blip(model: Any, inputs: Any) -> tuple[Vectors, Vectors, Vectors]:
    """The same for BLIP, whose class has no method for the vectors: its parts, one after another."""
    words = {name: inputs[name] for name in ("input_ids", "attention_mask")}
    images = model.vision_proj(model.vision_model(inputs["pixel_values"]).last_hidden_state[:, 0])
    texts = model.text_proj(model.text_encoder(**words).last_hidden_state[:, 0])
    whole = model(pixel_values=inputs["pixel_values"], **words, use_itm_head=False)
    return images.numpy(), texts.numpy(), whole.itm_score.numpy()


def matching(model: Any, inputs: Any) -> Vectors:
    """(images, texts): BLIP's logit of "match", one forward pass per image."""
    words = {name: inputs[name] for name in ("input_ids", "attention_mask")}
    stacks = [one.expand(len(CAPTIONS), -1, -1, -1) for one in inputs["pixel_values"]]
    return np.stack([model(pixel_values=one, **words, use_itm_head=True).itm_score[:, 1].numpy() for one in stacks])


def compare_openclip(architecture: str, folder: Path) -> Iterator[Row]:
    """A model of open_clip: its transforms, its tokenizer."""
    configs = folder / "configs"
    configs.mkdir(exist_ok=True)
    (configs / f"{architecture}.json").write_text(json.dumps(ARCHITECTURES[architecture]))
    open_clip.add_model_config(configs)
    torch.manual_seed(SEED)
    made = open_clip.create_model(architecture)
    spread(made)
    file = folder / f"{architecture}.safetensors"
    save_file({key: value.contiguous() for key, value in made.state_dict().items()}, file)
    model, _, transform = open_clip.create_model_and_transforms(architecture, pretrained=str(file))
    encoder = visir.load(f"openclip:{architecture}/{file}", device="cpu")
    images, texts = encoder.encode_images(photos()), encoder.encode_texts(CAPTIONS)
    with torch.no_grad():
        pixels = torch.stack([transform(photo) for photo in photos()])
        ids = open_clip.get_tokenizer(architecture)(CAPTIONS)
        left, right, _ = model.eval()(pixels, ids)
        name = f"open_clip {architecture.removeprefix('small-')}"
        yield Row(name, "vectors of images", images, model.encode_image(pixels).numpy())
        yield Row(name, "vectors of texts", texts, model.encode_text(ids).numpy())
        yield Row(name, "cosines", unit(images) @ unit(texts).T, (left @ right.T).numpy())


def fused() -> list[tuple[str, str, float]]:
    """X-VLM and ALBEF: (model, what, largest difference), by their tests."""
    tests = Path(__file__).parents[1] / "tests" / "encoders" / "test_fusion.py"
    command = [sys.executable, "-m", "pytest", str(tests), "-rP", "-k", "equal_the_authors_code"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise SystemExit(f"{tests} fails:\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}")
    names = {"xvlm": "X-VLM", "albef": "ALBEF"}
    whats = {"vectors": "vectors of images and texts", "matching": "matching scores"}
    words = [line.split() for line in ran.stdout.splitlines()]
    rows = [one for one in words if len(one) == 3 and one[0] in names and one[1] in whats]
    if len(rows) != len(names) * len(whats):
        raise SystemExit(f"{tests}: printed {len(rows)} comparisons, not four:\n{ran.stdout[-2000:]}")
    return [(names[kind], whats[what], float(figure)) for kind, what, figure in rows]


def photos() -> list[Image.Image]:
    """RGB photos of several sizes: coarse colour, so that interpolation has something to do, and fine noise."""
    random = np.random.default_rng(SEED)
    made = []
    for width, height in SIZES:
        coarse = Image.fromarray(random.integers(0, 256, (6, 8, 3), dtype=np.uint8))
        smooth = np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC)) // 2
        made.append(Image.fromarray(smooth + random.integers(0, 32, smooth.shape, dtype=np.uint8)))
    return made


def spread(model: torch.nn.Module) -> None:
    """Weights that carry the signal through; the libraries' initial ones give all inputs nearly one vector."""
    with torch.no_grad():
        for name, value in model.named_parameters():
            if value.ndim >= 2:
                fan_in = value.shape[-1] if "embedding" in name else value[0].numel()
                value.copy_(torch.randn_like(value) * (1.4 / fan_in**0.5))
            elif "logit" not in name and "temperature" not in name:
                value.add_(torch.randn_like(value) * 0.1)


def unit(vectors: Vectors) -> Vectors:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def clip(folder: Path) -> Any:
    words = clip_files(folder)
    return transformers.CLIPModel(
        transformers.CLIPConfig(text_config=clip_text(words), vision_config=VISION, projection_dim=SPACE)
    )


def groupvit(folder: Path) -> Any:
    words = clip_files(folder)
    stages = {"depths": [2, 1, 1], "num_hidden_layers": 4, "num_group_tokens": [8, 4, 0]}
    vision = VISION | stages | {"patch_size": 8, "num_output_groups": [8, 4, 0]}
    return transformers.GroupViTModel(
        transformers.GroupViTConfig(
            text_config=clip_text(words), vision_config=vision, projection_dim=SPACE, projection_intermediate_dim=96
        )
    )


def altclip(folder: Path) -> Any:
    """XLM-RoBERTa reads the text: letters and a few words as its pieces."""
    clip_images(folder)
    pieces = ["▁", *"abcdefghijklmnopqrstuvwxyzAT.,!'{}\\-1234é犬草", "▁dog", "▁the", "▁a", "ing", "▁brown"]
    scored = [(one, 0.0) for one in ("<s>", "<pad>", "</s>", "<unk>")]
    scored += [(one, -float(rank + 2)) for rank, one in enumerate(reversed(pieces))]
    transformers.XLMRobertaTokenizer(vocab=scored, model_max_length=512).save_pretrained(folder)
    size = len(tokenizer(folder))
    text = LAYERS | {"vocab_size": size, "max_position_embeddings": 520, "project_dim": SPACE, "pad_token_id": 1}
    return transformers.AltCLIPModel(
        transformers.AltCLIPConfig(text_config=text, vision_config=VISION, projection_dim=SPACE)
    )


def align(folder: Path) -> Any:
    """EfficientNet, whose image processor scales, cuts the centre and maps grey levels to -1…1."""
    transformers.EfficientNetImageProcessor(
        size={"height": 77, "width": 77},
        crop_size={"height": 65, "width": 65},
        do_center_crop=True,
        rescale_offset=True,
        rescale_factor=1 / 127.5,
        do_normalize=False,
        include_top=False,
        resample=Image.Resampling.BILINEAR,
    ).save_pretrained(folder)
    words = bert_files(folder)
    vision = {"image_size": 65, "width_coefficient": 1.0, "depth_coefficient": 1.0, "hidden_dim": SPACE}
    vision |= {"kernel_sizes": [3, 3, 5], "in_channels": [32, 16, 24], "out_channels": [16, 24, 48]}
    vision |= {"strides": [1, 2, 2], "num_block_repeats": [1, 2, 2], "expand_ratios": [1, 6, 6]}
    text = LAYERS | {"vocab_size": words, "max_position_embeddings": 512}
    return transformers.AlignModel(
        transformers.AlignConfig(text_config=text, vision_config=vision, projection_dim=SPACE)
    )


def blip_model(folder: Path) -> Any:
    transformers.BlipImageProcessor(size={"height": 64, "width": 64}).save_pretrained(folder)
    words = bert_files(folder)
    text = LAYERS | {"vocab_size": words, "max_position_embeddings": 512, "encoder_hidden_size": 64, "pad_token_id": 0}
    text |= {"bos_token_id": 2, "eos_token_id": 3, "sep_token_id": 3}
    return transformers.BlipForImageTextRetrieval(
        transformers.BlipConfig(
            text_config=text, vision_config=VISION, projection_dim=SPACE, image_text_hidden_size=SPACE
        )
    )


def clip_text(words: int) -> dict[str, int]:
    ends = {"bos_token_id": words - 2, "eos_token_id": words - 1, "pad_token_id": words - 1}
    return LAYERS | ends | {"vocab_size": words, "max_position_embeddings": 77}


def clip_images(folder: Path) -> None:
    transformers.CLIPImageProcessor(size={"shortest_edge": 64}, crop_size={"height": 64, "width": 64}).save_pretrained(
        folder
    )


def clip_files(folder: Path) -> int:
    """CLIP's image processor, and its byte-pair tokenizer with all bytes and a few merges; returns its size."""
    clip_images(folder)
    characters = sorted(transformers.convert_slow_tokenizer.bytes_to_unicode().values())
    merges = ["t h", "th e</w>", "d o", "do g</w>", "i n", "in g</w>", "b r", "o w", "br ow"]
    tokens = [*characters, *(f"{one}</w>" for one in characters), *(one.replace(" ", "") for one in merges)]
    tokens += ["<|startoftext|>", "<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({token: place for place, token in enumerate(tokens)}))
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]) + "\n")
    tokenizer_config(folder, "CLIPTokenizer", 77, pad_token="<|endoftext|>", unk_token="<|endoftext|>")
    return len(tokens)


def bert_files(folder: Path) -> int:
    """BERT's vocabulary: letters and a few words; returns its size."""
    letters = "abcdefghijklmnopqrstuvwxyz0123456789.,!'-{}\\"
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{one}" for one in letters)]
    tokens += ["dog", "the", "grass", "run", "##s", "brown", "child", "##ren", "犬"]
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    tokenizer_config(folder, "BertTokenizer", 512, do_lower_case=True)
    return len(tokens)


def tokenizer_config(folder: Path, name: str, limit: int, **settings: Any) -> None:
    content = {"tokenizer_class": name, "model_max_length": limit, **settings}
    (folder / "tokenizer_config.json").write_text(json.dumps(content))


def tokenizer(folder: Path) -> Any:
    """The library's own, of the class that the folder names."""
    name = json.loads((folder / "tokenizer_config.json").read_text())["tokenizer_class"]
    return getattr(transformers, name).from_pretrained(folder)


def _figure(value: float) -> str:
    return "0" if value == 0 else f"{value:.0e}"


KINDS: dict[str, tuple[str, Callable[[Path], Any], Any]] = {
    "clip": ("CLIP", clip, transformers.CLIPProcessor),
    "align": ("ALIGN", align, transformers.AlignProcessor),
    "altclip": ("AltCLIP", altclip, transformers.AltCLIPProcessor),
    "groupvit": ("GroupViT", groupvit, transformers.CLIPProcessor),
    "blip": ("BLIP", blip_model, transformers.BlipProcessor),
}
_TEXT = {"context_length": 77, "vocab_size": 49408, "width": 64, "heads": 4, "layers": 3}
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "small-ViT": {
        "embed_dim": SPACE,
        "vision_cfg": {"image_size": 64, "layers": 3, "width": 64, "patch_size": 16, "head_width": 16},
        "text_cfg": _TEXT,
    },
    "small-RN50": {
        "embed_dim": SPACE,
        "vision_cfg": {"image_size": 64, "layers": [3, 4, 6, 3], "width": 16, "patch_size": None},
        "text_cfg": _TEXT,
    },
}


if __name__ == "__main__":
    main()
