"""Well-known architectures with random weights, for benchmarks where no weights are at hand.

    python benchmarks/random_models.py clip-vit-base-patch32 runs/clip
    python benchmarks/random_models.py siglip-base-patch16-224 runs/siglip --small

Speed does not depend on the weights, nearness of vectors does: quote no recall of such a model. `--small` keeps every
part of the architecture, two layers of it and 32 pixels.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import string
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
import transformers

SMALL = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
PIXELS = {"image_size": 32, "patch_size": 8}
WORDS = (
    "a", "the", "on", "in", "of", "and", "with", "two", "three", "red", "green", "blue", "yellow", "purple", "orange",
    "small", "large", "circle", "square", "dog",
)  # fmt: skip


def clip(folder: Path, small: bool) -> None:
    """CLIP ViT-B/32 with OpenAI's byte-pair vocabulary, which open_clip brings along."""
    packed = (files("open_clip") / "bpe_simple_vocab_16e6.txt.gz").read_bytes()
    merges = gzip.decompress(packed).decode().split("\n")[1 : 49152 - 256 - 2 + 1]
    characters = list(transformers.convert_slow_tokenizer.bytes_to_unicode().values())
    tokens = [*characters, *(f"{character}</w>" for character in characters)]
    tokens += ["".join(merge.split()) for merge in merges]
    tokens += ["<|startoftext|>", "<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({token: place for place, token in enumerate(tokens)}))
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]) + "\n")
    settings = {"tokenizer_class": "CLIPTokenizer", "model_max_length": 77, "pad_token": "<|endoftext|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"unk_token": "<|endoftext|>"}))
    if small:
        square = {"size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32}}
        transformers.CLIPImageProcessor(**square).save_pretrained(folder)
        config = transformers.CLIPConfig(text_config=SMALL, vision_config={**SMALL, **PIXELS}, projection_dim=24)
    else:
        transformers.CLIPImageProcessor().save_pretrained(folder)
        config = transformers.CLIPConfig()
    _save(transformers.CLIPModel(config), folder)


def siglip(folder: Path, small: bool) -> None:
    """SigLIP ViT-B/16 at 224 pixels, with a small vocabulary: every text is padded to 64 tokens, whatever they are."""
    import sentencepiece

    model = io.BytesIO()
    letters = "abcdefghijklmnopqrstuvwxyz0123456789,."
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([" ".join(letters), "a dog runs on the beach, two children play beside an old boat"]),
        model_writer=model,
        vocab_size=64,
        hard_vocab_limit=False,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        minloglevel=2,
    )
    (folder / "spiece.model").write_bytes(model.getvalue())
    settings = {"tokenizer_class": "SiglipTokenizer", "model_max_length": 64, "model_input_names": ["input_ids"]}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    side = 32 if small else 224
    transformers.SiglipImageProcessor(size={"height": side, "width": side}).save_pretrained(folder)
    config = transformers.SiglipConfig()
    if small:
        text = {**SMALL, "vocab_size": 128, "max_position_embeddings": 64}
        config = transformers.SiglipConfig(text_config=text, vision_config={**SMALL, **PIXELS})
    _save(transformers.SiglipModel(config), folder)


def blip(folder: Path, small: bool) -> None:
    """BLIP base for retrieval, at 384 pixels."""
    words = _word_pieces(folder)
    side = 32 if small else 384
    transformers.BlipImageProcessor(size={"height": side, "width": side}).save_pretrained(folder)
    config = transformers.BlipConfig(vision_config={"image_size": side})
    if small:
        text = {**SMALL, "vocab_size": words, "encoder_hidden_size": 32, "pad_token_id": 0}
        text |= {"bos_token_id": 2, "eos_token_id": 3, "sep_token_id": 3}
        vision = {**SMALL, **PIXELS}
        config = transformers.BlipConfig(
            text_config=text, vision_config=vision, projection_dim=24, image_text_hidden_size=24
        )
    _save(transformers.BlipForImageTextRetrieval(config), folder)


def sentences(folder: Path, small: bool) -> None:
    """A sentence encoder in the shape of all-MiniLM-L6-v2: six layers of 384 numbers, averaged over the words."""
    from sentence_transformers import SentenceTransformer, models

    bert = folder / "bert"
    bert.mkdir()
    _word_pieces(bert)
    sizes = dict(SMALL) if small else {"hidden_size": 384, "intermediate_size": 1536, "num_hidden_layers": 6}
    transformers_config = transformers.BertConfig(**sizes) if small else transformers.BertConfig(
        **sizes, num_attention_heads=12
    )  # fmt: skip
    _save(transformers.BertModel(transformers_config), bert)
    parts = [models.Transformer(str(bert), max_seq_length=64), models.Pooling(sizes["hidden_size"])]
    SentenceTransformer(modules=parts, device="cpu").save(str(folder))


def open_clip_resnet(folder: Path, small: bool) -> None:
    """CLIP's ResNet-50 as open_clip builds it: convolutions, batch norms and attention pooling."""
    import open_clip
    from safetensors.torch import save_file

    text = {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 4, "layers": 2}
    vision = {"image_size": 64, "layers": [1, 1, 1, 1], "width": 16, "patch_size": None}
    tiny = {"embed_dim": 48, "vision_cfg": vision, "text_cfg": text}
    configuration: dict[str, Any] = tiny if small else open_clip.get_model_config("RN50")
    content = {"model_cfg": configuration, "preprocess_cfg": {"size": configuration["vision_cfg"]["image_size"]}}
    (folder / "open_clip_config.json").write_text(json.dumps(content))
    model = open_clip.CLIP(**configuration).eval()
    _spread(model)
    state = {name: value.contiguous() for name, value in model.state_dict().items()}
    save_file(state, folder / "open_clip_model.safetensors")


MODELS: dict[str, Callable[[Path, bool], None]] = {
    "clip-vit-base-patch32": clip,
    "siglip-base-patch16-224": siglip,
    "blip-itm-base": blip,
    "minilm-l6": sentences,
    "openclip-rn50": open_clip_resnet,
}
"""By name."""


def make(name: str, folder: Path, *, small: bool = False) -> Path:
    """Write a model into a folder, unless it is there already.

    Args:
        name: One of `MODELS`.
        folder: Where to.
        small: Two layers and few pixels, for a trial.

    Returns:
        The folder.
    """
    if not any((folder / file).is_file() for file in ("config.json", "modules.json", "open_clip_config.json")):
        folder.mkdir(parents=True, exist_ok=True)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            MODELS[name](folder, small)
    return folder


def _save(model: Any, folder: Path) -> None:
    _spread(model)
    model.save_pretrained(folder)


def _spread(model: torch.nn.Module) -> None:
    """Weights that carry the signal through: with the libraries' initial values all inputs would look alike."""
    with torch.no_grad():
        for name, value in model.named_parameters():
            if value.ndim >= 2:
                wide = value.shape[-1] if "embed" in name and value.ndim == 2 else value[0].numel()
                value.copy_(torch.randn_like(value) / wide**0.5)
            elif "logit" not in name:
                value.add_(torch.randn_like(value) * 0.1)


def _word_pieces(folder: Path) -> int:
    """BERT's vocabulary file: special tokens, letters, a few words; how many there are."""
    letters = string.ascii_lowercase + string.digits + ".,!'-"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    words += [word for word in WORDS if len(word) > 1]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    settings = {"tokenizer_class": "BertTokenizer", "model_max_length": 512, "do_lower_case": True}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return len(words)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=sorted(MODELS))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--small", action="store_true")
    arguments = parser.parse_args()
    print(make(arguments.name, arguments.folder, small=arguments.small))


if __name__ == "__main__":
    main()
