"""Urban1k: 1,000 photos of streets with one long caption each."""

from __future__ import annotations

from pathlib import Path

from visir.collections.draft import Draft
from visir.collections.picture_kinds import is_picture_name
from visir.collections.readers.names import compare_counts
from visir.collections.sources import Format
from visir.files import read_text

PUBLISHED = {"images": 1_000}


def read(path: Path) -> Draft:
    """Read the folder: `image/1.jpg` with its caption in `caption/1.txt`, and so on."""
    # Every photo is in the split "test". Ids are the names of the photos. A caption is the whole text of its file
    # without white space at its ends; the code of Long-CLIP takes the first line, which is the same in the published
    # files.
    pictures, captions = path / "image", path / "caption"
    missing = [f"no folder {folder.name}/" for folder in (pictures, captions) if not folder.is_dir()]
    if missing:
        raise FORMAT.lacks(path, *missing)
    draft = Draft("Urban1k", path, f"Urban1k {path.absolute().name}/")
    photos = {file.stem: file.name for file in pictures.iterdir() if is_picture_name(file.name)}
    texts = {file.stem: file for file in captions.iterdir() if file.suffix == ".txt"}
    for stem in sorted(photos.keys() | texts.keys(), key=lambda stem: (len(stem), stem)):
        if stem not in photos or stem not in texts:
            draft.fault(f"image/{stem}.jpg is missing" if stem in texts else f"caption/{stem}.txt is missing")
            continue
        name = photos[stem]
        draft.add_image(name, f"image/{name}", "test")
        draft.add_caption(f"{name}#0", read_text(texts[stem]).strip(), name)
    compare_counts(draft, PUBLISHED, {"images": len(draft.ids)})
    return draft


def _sniff(path: Path) -> bool:
    try:
        return (path / "image").is_dir() and any(file.suffix == ".txt" for file in (path / "caption").iterdir())
    except OSError:
        return False


FORMAT = Format(
    name="urban1k",
    title="Urban1k (long captions)",
    layout="image/1.jpg … and caption/1.txt …, one text for each photo",
    reference="Zhang et al., Long-CLIP (ECCV 2024)",
    obtain="https://huggingface.co/datasets/BeichenZhang/Urban1k (Urban1k.zip, unpacked)",
    sniff=_sniff,
    read=read,
)
