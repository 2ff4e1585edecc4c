"""Crossmodal-3600: 3,600 photos with captions by people in 36 languages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from visir.collections.draft import Draft
from visir.collections.readers.names import compare_counts
from visir.collections.readers.rows import RowFault, json_lines
from visir.collections.readers.sniffing import has_key, head
from visir.collections.sources import Format

KEY, LOCALE = "image/key", "image/locale"
PUBLISHED = {"images": 3_600, "languages": 36}


def read(path: Path) -> Draft:
    """Read `captions.jsonl`: a photo in every line, and under each language its captions."""
    # Every photo is in the split "test". Image ids are the keys; caption ids are "key#language#n". The texts are those
    # as written (`caption`), not the tokenised ones. A photo's `locale`, the language of the region where it was taken,
    # is one of the collection's facts.
    file = path if path.is_file() else path / "captions.jsonl"
    if not file.is_file():
        raise FORMAT.lacks(path, "no captions.jsonl in it")
    draft = Draft("Crossmodal-3600", file.parent, f"Crossmodal-3600 {file.name}")
    facts: list[dict[str, Any]] = []

    def report(fault: RowFault, place: str, detail: str) -> None:
        draft.fault(f"{file.name}, {place}: {fault.message.format(detail)}")

    for line, row in json_lines(file, report):
        key = row.get(KEY)
        if not isinstance(key, str) or not key:
            draft.fault(f"{file.name}, {line}: no {KEY}")
            continue
        draft.add_image(key, f"{key}.jpg", "test")
        facts.append({"image_id": key, "locale": row.get(LOCALE)})
        for language, content in row.items():
            texts = content.get("caption") if isinstance(content, dict) else None
            for place, text in enumerate(texts or ()):
                draft.add_caption(f"{key}#{language}#{place}", str(text), key, language)
    if draft.ids and not draft.texts:
        raise FORMAT.lacks(path, f"no captions in {file.name} ({{LANGUAGE: {{caption: […]}}}})")
    schema = pa.schema([("image_id", pa.string()), ("locale", pa.string())])
    draft.facts = pa.Table.from_pylist(facts, schema)
    compare_counts(draft, PUBLISHED, {"images": len(draft.ids), "languages": len(set(draft.languages))})
    return draft


def _sniff(path: Path) -> bool:
    file = path / "captions.jsonl" if path.is_dir() else path
    return has_key(head(file).split(b"\n", 1)[0], KEY, "caption")


FORMAT = Format(
    name="xm3600",
    title="Crossmodal-3600 (36 languages)",
    layout="captions.jsonl: {image/key, image/locale, LANGUAGE: {caption: […]}, …} per line; photos KEY.jpg",
    reference="Thapliyal et al., Crossmodal-3600: A Massively Multilingual Multimodal Evaluation Dataset (EMNLP 2022)",
    obtain="https://google.github.io/crossmodal-3600/web-data/captions.zip and "
    "https://open-images-dataset.s3.amazonaws.com/crossmodal-3600/images.tgz, both unpacked",
    sniff=_sniff,
    read=read,
)
