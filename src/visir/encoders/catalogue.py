"""Every family of models, kind of checkpoint, backbone and text input: its name, and the module that has it.

A new one is one file and one entry here. The tables of `visir.encoders.families` read this file when they are first
asked, and a module is imported when its entry is used.
"""

from __future__ import annotations

from visir.encoders.families import (
    ADAPTER_FILE,
    BACKBONES,
    CHECKPOINT_FILE,
    FAMILIES,
    KINDS,
    PRETRAINED_TOWERS,
    READERS,
    TEXT_INPUTS,
    Family,
)
from visir.plugins import PARTS

KINDS.add("towers", "visir.encoders.models.towers")
KINDS.add("adapters", "visir.encoders.models.towers")
KINDS.add("bag-of-words", "visir.encoders.models.small")
KINDS.add("joined", "visir.encoders.models.joined")
KINDS.add("combiner", "visir.encoders.combiner")
KINDS.add("views", "visir.encoders.models.joined")
KINDS.add("with-whole", "visir.encoders.models.joined")
KINDS.add("embeddings", "visir.encoders.models.vector_files")
KINDS.add("sparse", PARTS["checkpoint sparse"])  # of a room further down the road

for _family in (
    Family(
        name="checkpoint",
        title="a folder that visir wrote: trained towers, a fitted bag of words, exported embeddings",
        form="path/to/folder",
        example="runs/flickr8k-heads",
        module="visir.encoders.checkpoints",
        marker=CHECKPOINT_FILE,
    ),
    Family(
        name="pixels",
        title="colour and edge statistics of an image; no weights, nothing to download (images only)",
        form="pixels",
        example="pixels",
        module="visir.encoders.models.pixels",
        prefixes=("pixels",),
        devices=False,
        dtypes=("float32",),
        takes=("image",),
    ),
    Family(
        name="colours",
        title="how much of each colour, and which colour words; no weights, nothing to download: a floor for models",
        form="colours",
        example="colours",
        module="visir.encoders.models.pixels",
        prefixes=("colours",),
        devices=False,
        dtypes=("float32",),
    ),
    Family(
        name="bag-of-words",
        title="hashed bag of words; no weights, nothing to download (texts only)",
        form="bow[:DIMENSION]",
        example="bow",
        module="visir.encoders.models.small",
        prefixes=("bow",),
        devices=False,
        dtypes=("float32",),
        takes=("text",),
    ),
    Family(
        name="mobilenet",
        title="MobileNetV2 1.0/224 trained on ImageNet, from $VISIR_DATA/mobilenet_v2 or a folder (images only)",
        form="mobilenet_v2[:FOLDER][?vectors=grid]",
        example="mobilenet_v2",
        module="visir.encoders.models.onnx_image",
        prefixes=("mobilenet_v2",),
        dtypes=("float32",),
        takes=("image",),
    ),
    Family(
        name="onnx",
        title="an image backbone in an ONNX file (images only)",
        form="onnx:FILE[?option=value&…][#TENSOR]",
        example="onnx:resnet50.onnx?normalise=imagenet#avgpool",
        module="visir.encoders.models.onnx_image",
        prefixes=("onnx",),
        extra="onnx",
        packages=("onnxruntime", "onnx"),
        dtypes=("float32",),
        takes=("image",),
    ),
    Family(
        name="imported",
        title="vectors that were made elsewhere",
        form="npz:FILE, npy:FOLDER or parquet:FILE",
        example="npz:clip_vectors.npz",
        module="visir.encoders.models.vector_files",
        prefixes=("npz", "npy", "parquet"),
        devices=False,
        dtypes=("float32",),
    ),
    Family(
        name="openclip",
        title="any model of open_clip",
        form="openclip:ARCHITECTURE/PRETRAINED[?template=…] or a local folder",
        example="openclip:RN50/openai",
        module="visir.encoders.models.openclip",
        prefixes=("openclip",),
        marker="open_clip_config.json",
        extra="openclip",
        packages=("torch", "open_clip"),
    ),
    Family(
        name="xvlm",
        title="X-VLM (Swin-B, BERT) from a checkpoint file of its authors' code; has a matching head",
        form="xvlm:FILE[?option=value&…]",
        example="xvlm:itr_flickr/checkpoint_best.pth",
        module="visir.encoders.models.fusion",
        prefixes=("xvlm",),
        extra="fusion",
        packages=("torch", "transformers", "timm"),
    ),
    Family(
        name="albef",
        title="ALBEF (ViT-B/16, BERT) from a checkpoint file of its authors' code; has a matching head",
        form="albef:FILE[?option=value&…]",
        example="albef:flickr30k.pth",
        module="visir.encoders.models.fusion",
        prefixes=("albef",),
        extra="fusion",
        packages=("torch", "transformers", "timm"),
    ),
    Family(
        name="sentence",
        title="any sentence-transformers model, of texts, images or both",
        form="st:NAME[?option=value&…] or a local folder",
        example="st:all-MiniLM-L6-v2",
        module="visir.encoders.models.sentence",
        prefixes=("st",),
        marker="modules.json",
        extra="text",
        packages=("torch", "sentence_transformers"),
        revisions=True,
    ),
    Family(
        name="peft",
        title="a model with an adapter over it (LoRA and its kin), from a folder of peft's",
        form="path/to/folder[?base=NAME]",
        example="my-adapter?base=openai/clip-vit-base-patch32",
        module="visir.encoders.models.adapter_files",
        marker=ADAPTER_FILE,
        extra="train",
        packages=("torch", "peft"),
    ),
    Family(
        name="transformers",
        title="any model of transformers with image and text features, or a vision tower alone: hub or local folder",
        form="ORGANISATION/NAME[?option=value&…] or a local folder",
        example="openai/clip-vit-base-patch32",
        module="visir.encoders.models.transformers_models",
        marker="config.json",
        pattern=r"[\w.-]+/[\w.-]+",
        extra="transformers",
        packages=("torch", "transformers"),
        revisions=True,
    ),
):
    FAMILIES.add(_family.name, _family)

for _class in ("SentenceTransformer", "SparseEncoder", "MultiVectorEncoder"):
    READERS.add(_class, "visir.encoders.models.sentence:load_saved")
READERS.add("CrossEncoder", "visir.encoders.models.sentence:load_cross_encoder")
READERS.add("adapter", "visir.encoders.models.adapter_files:load_adapter")
READERS.add("ForRetrieval", "visir.encoders.models.late_interaction:load_files")

PRETRAINED_TOWERS.add("transformers", "visir.encoders.models.transformers_models:load_tower")
PRETRAINED_TOWERS.add("openclip", "visir.encoders.models.openclip:load_tower")
PRETRAINED_TOWERS.add("sentence-transformers", "visir.encoders.models.sentence_loading:load_tower")
PRETRAINED_TOWERS.add("fusion", "visir.encoders.models.fusion:load_tower")
PRETRAINED_TOWERS.add("towers", "visir.encoders.towers.pretrained_backbone:load_tower")

BACKBONES.add("resnet", "visir.encoders.towers.resnet:ResNetBackbone")
BACKBONES.add("small-cnn", "visir.encoders.towers.resnet:SmallCNNBackbone")
BACKBONES.add("gru", "visir.encoders.towers.gru:GRUBackbone")
BACKBONES.add("pretrained", "visir.encoders.towers.pretrained_backbone:PretrainedBackbone")

TEXT_INPUTS.add("tokens", "visir.encoders.models.text_inputs:FastTokens")
TEXT_INPUTS.add("siglip", "visir.encoders.models.text_inputs:SiglipPieces")
TEXT_INPUTS.add("words", "visir.encoders.models.small:WordInputs")
TEXT_INPUTS.add("joined", "visir.encoders.models.text_inputs:JoinedInputs")
