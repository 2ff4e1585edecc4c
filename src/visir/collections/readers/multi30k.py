"""Multi30K: Flickr30k's captions in German, French and Czech."""

from __future__ import annotations

import re
from pathlib import Path

from visir.collections.draft import Draft
from visir.collections.readers.sniffing import plain_name
from visir.collections.sources import Format, Option, one_of
from visir.errors import CollectionError
from visir.files import read_lines

_TEXTS = re.compile(r"^(?P<part>[a-z0-9_]+)(?:\.(?P<number>\d+))?\.(?P<language>[a-z]{2})$")
_IMAGES = re.compile(r"^(?P<part>[a-z0-9_]+?)(?:_images)?\.txt$")
_FLAT = "task{}-"


def read(path: Path, *, task: str = "1") -> Draft:
    """Read the repository's folder `data`, or its files in one folder (`task1-train.de.gz`,
    `task1-splits-train.txt`)."""
    # Splits are "train", "val", "test" (of 2016), and "test_2017_flickr", "test_2017_mscoco", "test_2018_flickr".
    # Photos are called as in Flickr30k (`1007129816.jpg`); those of Flickr8k are found too, as far as they are the
    # same. Every caption has a language: "en", "de", "fr", "cs". A test set that was not translated into a language has
    # none of it.
    texts, lists = _files(path, task)
    missing = [] if texts else [f"no captions of task {task} (train.de.gz, or task{task}-train.de.gz)"]
    missing += [] if lists else [f"no lists of the images of task {task} (image_splits/train.txt)"]
    if missing:
        raise FORMAT.lacks(path, *missing)
    draft = Draft(f"Multi30K task {task}", path, f"Multi30K {path.absolute().name}/, task {task}")
    for part, named in lists.items():
        images = [line.strip().split("#", 1)[0] for line in read_lines(named)]
        files = sorted(key for key in texts if key[0] == part)
        if not files:
            draft.notes.append(f"no captions of {part}")
            continue
        for image in dict.fromkeys(images):
            draft.add_image(image, image, _split(part))
        for key in files:
            _add(draft, texts[key], images, key[1], key[2])
    if unknown := sorted({key[0] for key in texts} - lists.keys()):
        draft.notes.append(f"no list of images for {', '.join(unknown)}: left out")
    return draft


def _add(draft: Draft, file: Path, images: list[str], language: str, number: str) -> None:
    """The captions of one file, line by line those of the images."""
    lines = read_lines(file)
    if len(lines) != len(images):
        draft.fault(f"{file.name}: {len(lines):,} captions for {len(images):,} images")
        return
    times: dict[str, int] = {}
    for image, text in zip(images, lines, strict=True):
        times[image] = times.get(image, -1) + 1  # an image of the COCO set may be listed with two of its captions
        again = f"#{times[image]}" if times[image] else ""
        draft.add_caption(f"{image}#{language}{f'#{number}' if number else ''}{again}", text.strip(), image, language)


def _files(path: Path, task: str) -> tuple[dict[tuple[str, str, str], Path], dict[str, Path]]:
    """The captions by (part, language, number), and the lists of images by part."""
    prefix = _FLAT.format(task)
    places: list[tuple[Path, str, Path, str]] = [(path, prefix, path, f"{prefix}splits-")]
    folders = (path, path / f"task{task}", path / "data" / f"task{task}")
    places += [(folder / "raw", "", folder / "image_splits", "") for folder in folders]
    texts: dict[tuple[str, str, str], Path] = {}
    lists: dict[str, Path] = {}
    for folder, start, list_folder, list_start in places:
        for file in _starting(folder, start):
            if match := _TEXTS.match(plain_name(file).removeprefix(start)):
                texts.setdefault((match["part"], match["language"], match["number"] or ""), file)
        for file in _starting(list_folder, list_start):
            if match := _IMAGES.match(plain_name(file).removeprefix(list_start)):
                lists.setdefault(match["part"], file)
    return texts, dict(sorted(lists.items(), key=lambda entry: _order(entry[0])))


def _starting(folder: Path, start: str) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(file for file in folder.iterdir() if file.name.startswith(start) and file.is_file())


def _order(part: str) -> tuple[int, str]:
    return (("train", "val").index(part) if part in ("train", "val") else 2), part


def _split(part: str) -> str:
    return "test" if part in ("test_2016_flickr", "test_2016") else part


def _sniff(path: Path) -> bool:
    if not path.is_dir():
        return False
    try:
        return any(all(_files(path, task)) for task in ("1", "2"))
    except (OSError, CollectionError):
        return False


FORMAT = Format(
    name="multi30k",
    title="Multi30K (English, German, French, Czech)",
    layout="data/task1/raw/train.de.gz … with data/task1/image_splits/train.txt …, line by line; task2: train.1.de.gz, "
    "train_images.txt; or the same files in one folder: task1-train.de.gz, task1-splits-train.txt",
    reference="Elliott et al. (VL 2016); Elliott et al. (WMT 2017); Barrault et al. (WMT 2018)",
    obtain="git clone https://github.com/multi30k/dataset; photos: Flickr30k "
    "(https://forms.illinois.edu/sec/229675)",
    sniff=_sniff,
    options=(
        Option("task", "1: translations of one caption; 2: five German captions, written independently", "1",
               one_of("1", "2")),
    ),
    read=read,
)  # fmt: skip
