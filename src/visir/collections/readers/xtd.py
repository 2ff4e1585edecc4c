"""XTD10: 1,000 photos of COCO with one caption each in eleven languages."""

from __future__ import annotations

import re
from pathlib import Path

from visir.collections.draft import Draft
from visir.collections.readers.names import image_id
from visir.collections.readers.sniffing import plain_name
from visir.collections.sources import Format
from visir.files import read_lines

_NAMES = "test_image_names.txt"
_CAPTIONS = re.compile(r"^test_1kcaptions_([a-z]{2})\.txt$")
_CODES = {"jp": "ja"}


def read(path: Path) -> Draft:
    """Read `test_image_names.txt` and `test_1kcaptions_LANGUAGE.txt`, line by line the captions of the photos."""
    # Every photo is in the split "test". Image ids are those of COCO, so that COCO's judgements apply; caption ids are
    # "image#language". Japanese is "ja", as in ISO 639 (the file says "jp").
    folders = [path, *(path / name for name in ("XTD10", "MIC", "STAIR")),
               *(path.parent / name for name in ("MIC", "STAIR") if path.name == "XTD10")]  # fmt: skip
    names = next((folder / _NAMES for folder in folders if (folder / _NAMES).is_file()), None)
    texts: dict[str, Path] = {}
    for folder in folders:
        for file in sorted(folder.iterdir()) if folder.is_dir() else ():
            if match := _CAPTIONS.match(plain_name(file)):
                texts.setdefault(_CODES.get(match[1], match[1]), file)
    missing = [] if names else [f"no {_NAMES}"]
    if missing or not texts:
        raise FORMAT.lacks(path, *missing, *([] if texts else ["no test_1kcaptions_en.txt (or of another language)"]))
    assert names is not None
    images = [line.strip() for line in read_lines(names)]
    draft = Draft("XTD10", names.parent, f"XTD10 {path.absolute().name}/")
    for image in images:
        draft.add_image(image_id(image), image, "test")
    for language, file in sorted(texts.items()):
        lines = read_lines(file)
        if len(lines) != len(images):
            draft.fault(f"{file.name}: {len(lines):,} captions for {len(images):,} images")
            continue
        for image, text in zip(images, lines, strict=True):
            draft.add_caption(f"{image_id(image)}#{language}", text.strip(), image_id(image), language)
    return draft


def _sniff(path: Path) -> bool:
    return path.is_dir() and any((folder / _NAMES).is_file() for folder in (path, path / "XTD10"))


FORMAT = Format(
    name="xtd",
    title="XTD10 (eleven languages)",
    layout="test_image_names.txt and test_1kcaptions_LANGUAGE.txt (also in MIC/ and STAIR/), one line for each photo; "
    "photos of COCO 2014",
    reference="Aggarwal, Kale, Towards Zero-shot Cross-lingual Image Retrieval (2020); Rajendran et al. (2016); "
    "Yoshikawa et al. (ACL 2017)",
    obtain="git clone https://github.com/adobe-research/Cross-lingual-Test-Dataset-XTD10; photos: "
    "http://images.cocodataset.org/zips/train2014.zip and val2014.zip",
    sniff=_sniff,
    read=read,
)
