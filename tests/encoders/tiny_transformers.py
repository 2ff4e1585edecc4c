"""Small random models of the real architectures, saved in their own format with a real processor and tokenizer.

Nothing is downloaded: vocabularies are built here. Sizes are the smallest at which every part of the architecture is
there (several layers, several heads, several patches, four stages of GroupViT).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from PIL import Image

CAPTIONS = [
    "A dog runs across the green grass.",
    "Two children in RED jackets climb a snowy hill, laughing!",
    "a man's bicycle leans against an old brick wall",
    "",
    "Ein Hund läuft über die Wiese – schnell",
    "犬が草の上を走る 🐕",
    "café naïve façade",
    "well-known   spaces\tand\ttabs",
    "the quick brown fox jumps over the lazy dog " * 30,
    "1,234 {} braces and \\ backslashes",
]


def photos(seed: int = 0) -> list[Image.Image]:
    """Images of odd sizes and modes: smooth colour, so that interpolation has something to interpolate."""
    random = np.random.default_rng(seed)
    sizes = [(37, 53), (224, 224), (301, 97), (1, 1), (3, 5), (5, 3), (400, 11), (11, 400), (64, 640)]
    made = []
    for width, height in sizes:
        coarse = Image.fromarray(random.integers(0, 256, (5, 7, 3), dtype=np.uint8))
        noise = random.integers(0, 24, (height, width, 3), dtype=np.uint8)
        smooth = np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC)) // 2
        made.append(Image.fromarray(smooth + noise))
    made.append(made[0].convert("L"))
    made.append(made[2].convert("RGBA"))
    made[-1].putalpha(made[2].convert("L"))
    made.append(made[2].convert("P"))
    made.append(made[0].convert("CMYK"))
    return made


def save(kind: str, folder: Path) -> Any:
    """Save a model of `kind` with its processor into `folder`, and return the model in evaluation mode."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(7)
    model = globals()[f"_{kind}"](folder).eval()
    _spread(model)
    model.save_pretrained(folder)
    return model


def reference_pixels(folder: Path, backend: str, images: list[Image.Image]) -> torch.Tensor:
    """The pixels that the image processor's class itself makes, found without the code under test."""
    settings = json.loads((folder / "preprocessor_config.json").read_text())
    name = settings["image_processor_type"] + ("Pil" if backend == "pil" else "")
    if not hasattr(transformers, name):  # before transformers 5 the fast class had the longer name
        name = settings["image_processor_type"] + ("" if backend == "pil" else "Fast")
    return getattr(transformers, name).from_pretrained(folder)(images=images, return_tensors="pt")["pixel_values"]


def _spread(model: torch.nn.Module) -> None:
    """Weights that carry the signal through: with the library's own initial values (0.02, constant biases and norms)
    the vectors of all inputs would be equal to eight digits, and a test that compares them could not fail."""
    for name, value in model.named_parameters():
        if value.ndim >= 2:
            fan_in = value.shape[-1] if "embedding" in name else value[0].numel()
            value.data = torch.randn_like(value) * (1.5 / fan_in**0.5)
        elif "logit" not in name:
            value.data += torch.randn_like(value) * 0.1
    for name, value in model.named_buffers():
        if "running" in name:
            value.data += torch.rand_like(value) * 0.1


def _clip(folder: Path) -> Any:
    words = clip_tokenizer(folder)
    image_processor("CLIPImageProcessor", folder, size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    return transformers.CLIPModel(
        transformers.CLIPConfig(
            text_config=dict(_layers(), vocab_size=words, max_position_embeddings=77, **_ends(words)),
            vision_config=dict(_layers(), image_size=32, patch_size=8),
            projection_dim=24,
        )
    )


def _groupvit(folder: Path) -> Any:
    words = clip_tokenizer(folder)
    image_processor("CLIPImageProcessor", folder, size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    return transformers.GroupViTModel(
        transformers.GroupViTConfig(
            text_config=dict(_layers(), vocab_size=words, max_position_embeddings=77, **_ends(words)),
            vision_config=dict(
                _layers(),
                image_size=32,
                patch_size=4,
                depths=[2, 1, 1],
                num_hidden_layers=4,
                num_group_tokens=[8, 4, 0],
                num_output_groups=[8, 4, 0],
            ),
            projection_dim=24,
            projection_intermediate_dim=48,
        )
    )


def _altclip(folder: Path) -> Any:
    words = unigram_tokenizer(folder)
    image_processor("CLIPImageProcessor", folder, size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    text = dict(_layers(), vocab_size=words, max_position_embeddings=130, project_dim=24, pad_token_id=1)
    return transformers.AltCLIPModel(
        transformers.AltCLIPConfig(
            text_config=text, vision_config=dict(_layers(), image_size=32, patch_size=8), projection_dim=24
        )
    )


def _align(folder: Path) -> Any:
    words = wordpiece_tokenizer(folder, limit=512)
    image_processor(
        "EfficientNetImageProcessor",
        folder,
        size={"height": 49, "width": 49},
        crop_size={"height": 41, "width": 41},
        do_center_crop=True,
        rescale_offset=True,
        include_top=False,
        do_normalize=False,
        rescale_factor=1 / 127.5,
        resample=Image.Resampling.BILINEAR,
    )
    vision = {
        "image_size": 41,
        "width_coefficient": 1.0,
        "depth_coefficient": 1.0,
        "depth_divisor": 8,
        "hidden_dim": 24,
        "kernel_sizes": [3, 3, 5],
        "in_channels": [32, 16, 24],
        "out_channels": [16, 24, 24],
        "strides": [1, 2, 2],
        "num_block_repeats": [1, 2, 2],
        "expand_ratios": [1, 6, 6],
    }
    text = dict(_layers(), vocab_size=words, max_position_embeddings=512)
    return transformers.AlignModel(transformers.AlignConfig(text_config=text, vision_config=vision, projection_dim=24))


def _siglip(folder: Path) -> Any:
    words = sentencepiece_tokenizer(folder)
    image_processor("SiglipImageProcessor", folder, size={"height": 32, "width": 32})
    return transformers.SiglipModel(
        transformers.SiglipConfig(
            text_config=dict(_layers(), vocab_size=words, max_position_embeddings=64),
            vision_config=dict(_layers(), image_size=32, patch_size=8),
        )
    )


def _blip(folder: Path) -> Any:
    words = wordpiece_tokenizer(folder, limit=512)
    image_processor("BlipImageProcessor", folder, size={"height": 32, "width": 32})
    text = dict(_layers(), vocab_size=words, max_position_embeddings=512, encoder_hidden_size=32, pad_token_id=0)
    text |= {"bos_token_id": 2, "eos_token_id": 3, "sep_token_id": 3}
    return transformers.BlipForImageTextRetrieval(
        transformers.BlipConfig(
            text_config=text,
            vision_config=dict(_layers(), image_size=32, patch_size=8),
            projection_dim=24,
            image_text_hidden_size=24,
        )
    )


def _layers() -> dict[str, int]:
    return {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}


def _ends(words: int) -> dict[str, int]:
    return {"bos_token_id": words - 2, "eos_token_id": words - 1, "pad_token_id": words - 1}


def image_processor(name: str, folder: Path, **settings: Any) -> None:
    """Save the image processor `name` with the settings that differ from its defaults."""
    getattr(transformers, name)(**settings).save_pretrained(folder)


def clip_tokenizer(folder: Path, merges: list[str] | None = None) -> int:
    """CLIP's byte-pair files; with a handful of merges unless given; returns the number of tokens."""
    characters = list(_byte_characters().values())
    if merges is None:
        merges = ["t h", "th e</w>", "d o", "do g</w>", "i n", "in g</w>", "a n", "an d</w>", "r u", "ru n"]
    vocabulary = [*characters, *(f"{one}</w>" for one in characters), *(merge.replace(" ", "") for merge in merges)]
    vocabulary += ["<|startoftext|>", "<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({token: place for place, token in enumerate(vocabulary)}))
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]) + "\n")
    _tokenizer_config(folder, "CLIPTokenizer", 77, pad_token="<|endoftext|>", unk_token="<|endoftext|>")
    return len(vocabulary)


def wordpiece_tokenizer(folder: Path, limit: int) -> int:
    """BERT's vocabulary file: special tokens, letters, a few words; returns the number of tokens."""
    letters = "abcdefghijklmnopqrstuvwxyz0123456789.,!'-{}\\"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{one}" for one in letters)]
    words += ["dog", "the", "grass", "run", "##ning", "##s", "child", "##ren"]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    _tokenizer_config(folder, "BertTokenizer", limit, do_lower_case=True)
    return len(words)


def unigram_tokenizer(folder: Path) -> int:
    """An XLM-RoBERTa tokenizer over a unigram model trained on the captions; returns the number of tokens."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    tokenizer.train_from_iterator(
        CAPTIONS, trainers.UnigramTrainer(vocab_size=120, special_tokens=special, unk_token="<unk>")
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    transformers.XLMRobertaTokenizerFast(tokenizer_object=tokenizer, model_max_length=512).save_pretrained(folder)
    return len(transformers.AutoTokenizer.from_pretrained(folder, tokenizer_type="xlm-roberta")) + 1


def sentencepiece_tokenizer(folder: Path) -> int:
    """SigLIP's tokenizer over a SentencePiece model trained on the captions; returns the number of tokens."""
    import io

    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([caption for caption in CAPTIONS if caption]),
        model_writer=model,
        vocab_size=110,
        hard_vocab_limit=False,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        minloglevel=2,
    )
    (folder / "spiece.model").write_bytes(model.getvalue())
    _tokenizer_config(folder, "SiglipTokenizer", 64, do_lower_case=True, model_input_names=["input_ids"])
    return int(sentencepiece.SentencePieceProcessor(model_proto=model.getvalue()).get_piece_size())


def gemma_tokenizer(folder: Path) -> None:
    """Gemma's tokenizer over single letters, with case."""
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ▁.,"
    words = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", *letters]
    vocabulary = {token: place for place, token in enumerate(words)}
    transformers.GemmaTokenizer(vocab=vocabulary, merges=[], add_bos_token=False, add_eos_token=True).save_pretrained(
        folder
    )


def _tokenizer_config(folder: Path, name: str, limit: int, **settings: Any) -> None:
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": name, "model_max_length": limit, **settings})
    )


def _byte_characters() -> dict[int, str]:
    """GPT-2's printable stand-ins for the 256 bytes."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + place) for place, byte in enumerate(others)}
