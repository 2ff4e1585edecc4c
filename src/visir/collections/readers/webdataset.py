"""WebDataset shards: tars in which files that share a name up to the first dot belong together."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from visir.collections.archives import TarArchive, opened_as
from visir.collections.draft import Draft
from visir.collections.picture_kinds import is_picture_name, left_out, picture_endings
from visir.collections.readers.locate import relative
from visir.collections.readers.names import CAPTION_ENDINGS, SPLITS
from visir.collections.sources import Format, Option, one_of
from visir.collections.tables import CAPTION_COLUMNS
from visir.collections.tars import TARS, tar_notes
from visir.display import counted
from visir.errors import CollectionError
from visir.files import literal_root, read_lines, user_path
from visir.remote import is_url

CLASS_NAMES = "classnames.txt"
"""The names of classes beside shards, one on each line, in the order of their numbers."""
_BRACES = re.compile(r"\{([^{}]*)\}")


def read(path: Path, *, newline: str = "separates", caption: str | None = None) -> Draft:
    """Read shards: one tar, a folder of tars, or a pattern such as `train-{000000..000099}.tar`."""
    # - A sample is the files `key.jpg`, `key.txt`, `key.json`, …; its image id is the key (its path up to the first dot
    #   of the last part; up to the last dot where that is none: `22.05.png` beside `22.06.png`). Pictures are
    #   read in place, at their offset in the tar. Of several the first in the tar is the sample's; a note counts the
    #   others. Further notes count links, and tars with more behind the mark of their end.
    # - Captions are in `.txt`, or else in `.json` under `caption`, as text or as a list. Other files of a sample are
    #   not read.
    # - Folders called train, val or test above the shards name the split.
    # - A class in `.cls`, a number or a name, is the fact `class`; `classnames.txt` beside the shards names the
    #   numbers, as CLIP_benchmark has it. Without captions, ids of such samples begin with their split: each split
    #   counts anew.
    # Keys must be unique over all shards. A compressed tar is an error: its members cannot be read one by one.
    shards = _shards(path)
    root = path if path.is_dir() else path.parent
    draft = Draft(path.name.partition(".")[0] or root.name, root, f"WebDataset, {len(shards)} shards")
    endings = picture_endings()
    labels: dict[str, str] = {}
    passed: list[str] = []
    strangers: list[str] = []
    links: list[str] = []
    going_on: list[str] = []
    for shard in shards:
        archive, place = opened_as(TarArchive, shard), relative(shard, root)
        keyed = [(*sample_key(name), name) for name in archive.names()]
        long = _long_keys(keyed, endings)
        samples: dict[str, dict[str, str]] = {}  # a sample's files need not stand together
        for key, ending, name in keyed:
            if key in long:
                key, ending = sample_key(name, long=True)
            if key:
                samples.setdefault(key, {})[ending] = name
        links += [f"{place}: {name}" for name in archive.links]
        going_on += [place] if archive.goes_on else []
        split = SPLITS.get(shard.parent.name.lower(), "")
        for key, parts in samples.items():
            pictures = [name for end, name in parts.items() if is_picture_ending(end, endings)]
            picture = pictures[0] if pictures else None
            passed += pictures[1:]
            texts = _captions(draft, archive, f"{place}: {key}", parts, newline == "separates", caption)
            if picture is None:
                strangers += parts.values()
                if texts:
                    draft.fault(f"{place}: {key}: captions, but no picture")
                continue
            if "cls" in parts:
                key = f"{split}/{key}" if split and not texts else key
                labels[key] = archive.read(parts["cls"]).decode("utf-8", "replace").strip()
            draft.add_image(key, None, split, place=(picture, place))
            for number, text in enumerate(texts):
                draft.add_caption(f"{key}#{number}", text, key)
    if not draft.ids:
        raise CollectionError(
            f"{draft.name} ({draft.source}): no images in it.", hint=left_out(strangers) or "no files in it either"
        )
    if passed:
        count = counted(len(passed), "pictures")
        draft.notes.append(f"{count} passed over whose sample has another before, e.g. {passed[0]}")
    draft.notes += tar_notes(links, going_on)
    if labels:
        _set_classes(draft, labels, root)
    return draft


def _long_keys(keyed: list[tuple[str, str, str]], endings: frozenset[str]) -> set[str]:
    """Keys that are none: of files without a plain ending, two of which are pictures or differ in the last ending."""
    plain = {key for key, ending, _ in keyed if "." not in ending}
    dotted = [(key, ending, name) for key, ending, name in keyed if key not in plain]
    pictures = Counter(key for key, ending, _ in dotted if is_picture_ending(ending, endings))
    longer = Counter((key, sample_key(name, long=True)[0]) for key, _, name in dotted)
    return {key for key, count in pictures.items() if count > 1} | {key for (key, _), n in longer.items() if n > 1}


def is_picture_ending(ending: str, endings: frozenset[str]) -> bool:
    """Whether a member with this ending ("seg.png") is a picture, by its last part."""
    last = ending.rpartition(".")[2]
    return f".{last}" in endings or last in ("img", "image")


def _set_classes(draft: Draft, labels: dict[str, str], root: Path) -> None:
    """The class of each sample as a fact; numbers get their names."""
    listed = root / CLASS_NAMES
    names = [line.strip() for line in read_lines(listed) if line.strip()] if listed.is_file() else []
    values = [labels.get(key) for key in draft.ids]
    numbered = all(value is None or value.isdecimal() for value in values)
    if not names or not numbered:
        draft.facts = pa.table({"image_id": draft.ids, "class": pa.array(values, pa.string())})
        return
    beyond = next((value for value in values if value is not None and int(value) >= len(names)), None)
    if beyond is not None:
        raise CollectionError(
            f"{listed}: {len(names)} names, but there is a class {beyond}.",
            hint="one on each line",
            code="names-too-few",
        )
    draft.set_classes([None if value is None else names[int(value)] for value in values], names)


def expand(pattern: str) -> list[str]:
    """All names that a brace pattern stands for: `a-{00..02}.tar`, `{train,val}.tar`; others stand for themselves."""
    # So does what is there under that very name, a file or a folder above.
    if _BRACES.search(pattern) is None or is_url(pattern):
        return _expanded(pattern)
    path = user_path(pattern)
    if path.exists():
        return [pattern]
    root, below = literal_root(path)
    return [str(root / name) for name in _expanded(below)]


def _expanded(pattern: str) -> list[str]:
    match = _BRACES.search(pattern)
    if match is None:
        return [pattern]
    alternatives = match[1]
    if ".." in alternatives:
        first, _, last = alternatives.partition("..")
        if not (first.isdecimal() and last.isdecimal()) or int(first) > int(last):
            raise CollectionError(
                f"{pattern!r}: expected {{000..099}}, found {{{alternatives}}}.", code="expected-found"
            )
        choices = [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    else:
        choices = alternatives.split(",")
    before, after = pattern[: match.start()], pattern[match.end() :]
    return [name for choice in choices for name in _expanded(before + choice + after)]


def _shards(path: Path) -> list[Path]:
    if path.is_dir():
        shards = sorted(path.glob("*.tar")) or sorted(path.glob("*/*.tar"))
        if not shards:
            raise CollectionError(f"{path}: no .tar shards in it.")
        return shards
    shards = [Path(shard) for shard in expand(str(path))]
    missing = [shard for shard in shards if not shard.is_file()]
    if missing:
        listing = ", ".join(shard.name for shard in missing[:3]) + (" …" if len(missing) > 3 else "")
        raise CollectionError(
            f"{path}: {len(missing)} of {len(shards)} shards are missing: {listing}",
            hint="check the pattern's range",
            code="shards-missing",
        )
    return shards


def sample_key(name: str, *, long: bool = False) -> tuple[str, str]:
    """The key of a member of a shard (its path up to the first dot of the last part, or the last), and its ending."""
    folder, slash, base = name.removeprefix("./").rpartition("/")
    stem, dot, ending = base.rpartition(".") if long else base.partition(".")
    return (f"{folder}{slash}{stem}", ending.lower()) if stem and dot else ("", "")


def _captions(
    draft: Draft, archive: TarArchive, place: str, parts: dict[str, str], lines: bool, column: str | None
) -> list[str]:
    try:
        for ending in CAPTION_ENDINGS if column is None else ():
            if ending in parts:
                text = archive.read(parts[ending]).decode("utf-8")
                return [line for line in text.split("\n") if line] if lines else [text.removesuffix("\n")]
        if "json" not in parts:
            return []
        content: Any = orjson.loads(archive.read(parts["json"]))
    except UnicodeDecodeError as fault:
        draft.fault(f"{place}: its text is not UTF-8 ({fault.reason} at byte {fault.start})")
        return []
    except orjson.JSONDecodeError as fault:
        draft.fault(f"{place}: its JSON is not valid: {fault}")
        return []
    fields = content if isinstance(content, dict) else {}
    names = [column] if column else [name for name in (*CAPTION_ENDINGS, *CAPTION_COLUMNS) if name in fields]
    value = fields.get(names[0]) if names else None
    if column is not None and value is None:
        draft.fault(f"{place}: no {column!r} in its JSON; there are {', '.join(fields) or 'none'}")
    values = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(caption, str) for caption in values):
        draft.fault(f"{place}: captions must be text, found {str(value)[:60]}")
        return []
    return values


def _sniff(path: Path) -> bool:
    if path.is_dir():
        if (path / CLASS_NAMES).is_file() and any(path.glob("*/*.tar")):
            return True
        tars = sum(1 for _ in path.glob("*.tar"))
        if not tars or any(path.glob("*_caps.txt")):
            return False
        return sum(is_picture_name(entry.name) for entry in path.iterdir()) <= tars  # else they are among photos
    return path.name.endswith(TARS)


FORMAT = Format(
    name="webdataset",
    title="WebDataset shards",
    layout="shard-{000000..000099}.tar with key.jpg and key.txt, key.json or key.cls; or a folder of them, or of "
    "split folders",
    reference="webdataset; img2dataset; CLIP_benchmark",
    sniff=_sniff,
    options=(
        Option(
            "newline",
            "in .txt: 'separates' captions, or 'belongs' to one",
            "separates",
            one_of("separates", "belongs"),
        ),
        Option("caption", "the key of the caption(s) in .json (default: text, caption, captions, …)"),
    ),
    read=read,
)
