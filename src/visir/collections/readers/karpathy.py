"""Karpathy's JSON of COCO, Flickr30k and Flickr8k: images, their sentences, and the splits that everybody uses."""

from __future__ import annotations

from pathlib import Path

from visir.collections.draft import Draft
from visir.collections.readers.names import identifier
from visir.collections.readers.sniffing import has_key, json_head, plain_stem
from visir.collections.sources import Format, Option, one_of
from visir.errors import CollectionError
from visir.files import read_json


def read(path: Path, *, restval: str) -> Draft:
    """Read `dataset_{coco,flickr30k,flickr8k}.json`."""
    # - Image ids: `cocoid` where there is one (so that CxC, ECCV Caption and COCO's own annotations fit), else
    #   `filename`.
    # - Caption ids: `sentid`. In `dataset_coco.json` these are COCO's annotation ids.
    # - All sentences are kept. COCO images have five to seven; protocols that use five take the first five.
    content = read_json(path)
    if not isinstance(content, dict) or not isinstance(content.get("images"), list):
        raise CollectionError(f"{path}: not Karpathy's layout: no list called 'images'.", hint="visir data formats")
    draft = Draft(str(content.get("dataset") or plain_stem(path)), path.parent, f"Karpathy JSON {path.name}")
    train_restval = restval == "train"
    for number, image in enumerate(content["images"]):
        try:
            filename, sentences, split = image["filename"], image["sentences"], image["split"]
            cocoid, folder, imgid = image.get("cocoid"), image.get("filepath") or "", image.get("imgid")
            if not all(isinstance(value, str) for value in (filename, split, folder)) or not isinstance(
                sentences, list
            ):
                raise TypeError("filename, filepath and split must be text, sentences a list")
            own = filename if cocoid is None else identifier(cocoid)
        except (KeyError, TypeError) as fault:
            draft.fault(f"images[{number}]: {_explain(fault)}")
            continue
        if train_restval and split == "restval":
            split = "train"
        draft.add_image(own, f"{folder}/{filename}" if folder else filename, split)
        for position, sentence in enumerate(sentences):
            try:
                text, sentid = sentence["raw"], identifier(sentence["sentid"])
                if not isinstance(text, str):
                    raise TypeError("raw must be text")
            except (KeyError, TypeError) as fault:
                draft.fault(f"images[{number}] ({filename}), sentences[{position}]: {_explain(fault)}")
                continue
            if sentence.get("imgid", imgid) != imgid:
                draft.fault(f"images[{number}] ({filename}): sentence {sentid} says it belongs to {sentence['imgid']}")
            draft.add_caption(sentid, text, own)
    return draft


def _sniff(path: Path) -> bool:
    text = json_head(path)
    return text.startswith(b"{") and (has_key(text, "sentids") or has_key(text, "sentences", "raw"))


def _explain(fault: Exception) -> str:
    return f"no {fault.args[0]!r}" if isinstance(fault, KeyError) else str(fault)


FORMAT = Format(
    name="karpathy",
    title="Karpathy JSON (COCO, Flickr30k, Flickr8k)",
    layout="dataset_coco.json: {dataset, images: [{filename, filepath?, cocoid?, imgid, split, sentids, "
    "sentences: [{raw, sentid, imgid, tokens}]}]}; pictures beside it or given",
    reference="Karpathy and Fei-Fei, Deep Visual-Semantic Alignments (CVPR 2015), caption_datasets.zip",
    sniff=_sniff,
    options=(
        Option(
            "restval",
            "'train': COCO's restval images belong to train; 'keep': they stay a split",
            "train",
            one_of("train", "keep"),
        ),
    ),
    read=read,
)
