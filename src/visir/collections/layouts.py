"""Published collections of pictures with captions: each is what its makers say of it, and how its files are read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

from visir.collections.batches import Batch
from visir.collections.draft import Draft
from visir.collections.layout import Files, LayoutReading, SourceLayout, published, reader
from visir.collections.picture_kinds import is_picture_name
from visir.collections.readers.names import (
    compare_counts,
    has_key,
    head,
    image_id,
    json_head,
    plain_name,
    plain_stem,
    read_array,
    read_ids,
    split_in,
)
from visir.collections.readers.table import lists_rows
from visir.collections.sources import one_of
from visir.collections.tables import Row
from visir.display import counted
from visir.errors import CollectionError, nearest
from visir.files import find_file, read_json, read_lines, read_text


def _files_in(folder: Path) -> list[Path]:
    return sorted(folder.iterdir(), key=attrgetter("name")) if folder.is_dir() else []


def _first_line(path: Path) -> bytes:
    return head(path).split(b"\n", 1)[0]


def _lines_of(draft: Draft, file: Path, images: Sequence[str]) -> list[str]:
    """The captions in a file that has a line for each image; none, and a fault, where it has not."""
    lines = read_lines(file)
    if len(lines) == len(images):
        return lines
    draft.fault(f"{file.name}: {len(lines):,} captions for {len(images):,} images")
    return []


# JSON of COCO and of those who took its pictures.


def _named_by_itself(reading: LayoutReading, content: Any) -> None:
    if isinstance(content, dict) and content.get("dataset"):
        reading.draft.name = str(content["dataset"])


def _karpathy_images(reading: LayoutReading, batch: Batch) -> None:
    """COCO's `restval` is a part of train; sentences that name another image are faults."""
    if reading.options["restval"] == "train":
        batch.columns["split"] = ["train" if split == "restval" else split for split in batch["split"]]
    for number, (own, sentences) in enumerate(zip(batch["imgid"], batch["sentences"], strict=True)):
        for sentence in sentences if own is not None and type(sentences) is list else ():
            if type(sentence) is dict and sentence.get("imgid", own) != own:
                wrong = f"sentence {sentence.get('sentid')} says it belongs to {sentence['imgid']}"
                reading.draft.fault(f"{batch.place(number)} ({batch['filename'][number]}): {wrong}")


def _is_karpathy(path: Path) -> bool:
    text = json_head(path)
    return text.startswith(b"{") and (has_key(text, "sentids") or has_key(text, "sentences", "raw"))


karpathy = published("karpathy", sniff=_is_karpathy, opened=_named_by_itself, batch=_karpathy_images)


_OFFICIAL = re.compile(r"^captions_(train|val|test)(20\d\d)\.json(?:\.gz|\.xz)?$")


def _is_coco(path: Path) -> bool:
    if path.is_dir():  # the folder of the distribution; elsewhere other collections may lie beside the file
        return path.name == "annotations" and any(_OFFICIAL.match(file.name) for file in path.iterdir())
    text = json_head(path)
    return text.startswith(b"{") and (has_key(text, "file_name", "images") or has_key(text, "annotations", "image_id"))


def _one_year(path: Path, files: Files, options: dict[str, Any]) -> Files:
    years = {says["year"] for _, _, says in files if "year" in says} if path.is_dir() else set()
    if len(years) > 1:
        raise CollectionError(
            f"{path}: captions of {' and '.join(sorted(years))}, which hold the same pictures in other splits.",
            hint="name one file, or keep one year in the folder",
            code="captions-hold-same-pictures",
        )
    return files


coco_captions = published("coco_captions", sniff=_is_coco, choose=_one_year)


def _is_annotation_list(path: Path) -> bool:
    # Further columns, as a split, have the meaning that they have in any table.
    text = json_head(path)
    has_captions = has_key(text, "caption") or has_key(text, "captions")
    return text.startswith(b"[") and has_key(text, "image") and has_captions and not lists_rows(path)


def _first_captions(reading: LayoutReading, batch: Batch) -> None:
    """As many captions as each image still may have."""
    most = reading.options["captions_per_image"]
    if most is None:
        return
    had = reading.memory = reading.memory or {}
    captions = batch.columns["caption"] = batch.values("caption | captions").copy()
    for number, (name, texts) in enumerate(zip(batch["image"], captions, strict=True)):
        if isinstance(name, str) and texts is not None:
            own, listed = image_id(name), texts if isinstance(texts, list) else [texts]
            captions[number] = listed[: max(most - had.get(own, 0), 0)]
            had[own] = had.get(own, 0) + len(listed)


def _given_ids(reading: LayoutReading) -> None:
    """The ids of captions that somebody has in a list."""
    given, draft = reading.options["caption_ids"], reading.draft
    if given is None:
        return
    ids, count = read_ids(given), len(draft.texts)
    draft.caption_ids[: len(ids)] = ids[:count]
    if len(ids) != count:
        draft.fault(
            f"{Path(str(given)).name} has {len(ids):,} ids, and there are {count:,} captions; "
            "captions_per_image=5 keeps the first five of each image"
        )


annotation_list = published("annotation_list", sniff=_is_annotation_list, batch=_first_captions, finish=_given_ids)


def _read_pool(reading: LayoutReading) -> None:
    """The names of the pool of images by their stems, of `*_img_filenames.npy`."""
    path, pool = reading.path, reading.options["pool"]
    stem = plain_stem(path).removesuffix("_ann")
    reading.draft.name = stem
    if pool is None:
        places = [folder / f"{stem}_img_filenames.npy" for folder in (path.parent, path.parent.parent / "Images")]
        pool = next(filter(None, map(find_file, places)), None)
        if pool is None:
            raise CollectionError(
                f"{path}: its image pool {stem}_img_filenames.npy is not beside it.",
                hint="give it with pool=FILE; pool=none reads the captions alone (another benchmark: a smaller "
                "gallery)",
                code="image-pool-img-filenames",
            )
    if pool == "none":
        reading.draft.notes.append("no image pool")
    else:
        reading.options["pool"] = pool
        reading.memory = {Path(name).stem: name for name in map(str, read_array(Path(pool)).tolist())}
        reading.draft.notes.append(f"pool {Path(pool).name}")


def _in_pool(reading: LayoutReading, place: str, row: Row) -> Row:
    name = None if reading.memory is None else reading.memory.pop(row["key"], None)
    if name is None and reading.memory is not None:
        pool = Path(reading.options["pool"]).name
        reading.draft.fault(f"image {row['key']!r} has captions, but is not in {pool}")
    return {**row, "name": name or f"{row['key']}.jpg"}


def _without_captions(reading: LayoutReading) -> None:
    for name in (reading.memory or {}).values():
        reading.draft.add_image(image_id(name), name, "pool")


fine_grained = published(
    "fine_grained",
    sniff=lambda path: plain_name(path).endswith("_ann.json") and json_head(path).startswith(b"{"),
    begin=_read_pool,
    row=_in_pool,
    finish=_without_captions,
)


# Lines: those of Flickr's token files, with splits from lists of names beside them, and those of VSE++.

_LIST = re.compile(r"^(?:.*[_.]|flickr8k)?(train|val|valid|dev|test)(?:Images|_images|_ids)?\.txt$", re.IGNORECASE)


def _read_lists(reading: LayoutReading) -> None:
    """The split of each image, from lists of names beside the captions, or where `splits=` says."""
    splits, folder = reading.options["splits"], reading.draft.root
    if splits == "none":
        files = []
    elif isinstance(splits, list) or (isinstance(splits, str) and "," in splits):
        files = [Path(file) for file in (splits.split(",") if isinstance(splits, str) else splits)]
    else:
        folder = folder if splits is None else Path(splits)
        if not folder.exists():
            raise CollectionError(f"{folder}: no such folder.", hint="splits= is the folder of the split lists")
        inside = _files_in(folder) if folder.is_dir() else []
        files = [file for file in inside if _LIST.match(plain_name(file)) and file != reading.path]
        files = [folder] if folder.is_file() else files
        if splits is not None and not files:
            raise CollectionError(
                f"{folder}: no split lists (files such as test.txt, Flickr_8k.testImages.txt) in it.",
                code="no-split-lists-files",
            )
    split_of: dict[str, str] = {}
    for file in files:
        match = _LIST.match(plain_name(file))
        split = split_in(match[1]) if match else split_in(plain_stem(file)) or plain_stem(file)
        for name in filter(None, map(str.strip, read_lines(file))):
            if split_of.setdefault(name, split) != split:
                reading.draft.fault(f"image {name!r} is in the lists of {split_of[name]} and of {split}")
    reading.memory = files, split_of, {}


def _split_by_lists(reading: LayoutReading, batch: Batch) -> None:
    """The split of each image; those that are in no list and shall be left out are."""
    files, split_of, seen = reading.memory
    for image in dict.fromkeys(batch["image"]) if files else ():
        if image not in seen:
            split = split_of.pop(image, None) or split_of.pop(image.removesuffix(".jpg"), None)
            is_kept = split is not None or reading.options["unlisted"] == "keep"
            seen[image] = (split or "unlisted") if is_kept else None
    splits = batch.columns["split"] = [seen[image] for image in batch["image"]] if files else [""] * len(batch.rows)
    if "set" in batch.columns:
        batch.columns["language"] = ["en" if code.startswith("en") else "zh" for code in batch["set"]]
        batch.columns["caption"] = [caption.strip() for caption in batch["caption"]]
    if None in splits:
        batch.keep([split is not None for split in splits])


def _tell_lists(reading: LayoutReading) -> None:
    """Note what the lists did, and images that they name and the captions do not."""
    (files, split_of, seen), draft = reading.memory, reading.draft
    name = reading.files[0][1].name
    for image, split in split_of.items():
        draft.fault(f"the list of {split} names image {image!r}, which has no captions in {name}")
    if files:
        draft.notes.append(f"splits from {', '.join(file.name for file in files)}")
    elif reading.layout.name == "flickr8k-cn":
        draft.notes.append("no split lists beside it: splits=FOLDER takes those of Flickr8k")
    if left_out := list(seen.values()).count(None):
        draft.notes.append(f"{counted(left_out, 'images')} in no split list left out")


flickr_tokens: SourceLayout = published(
    "flickr_tokens",
    sniff=lambda path: path.is_file() and flickr_tokens.tables[0].fits(path),
    begin=_read_lists,
    batch=_split_by_lists,
    finish=_tell_lists,
)


_CHINESE_SETS = {
    "zhc": "Chinese, written by people",
    "zhm": "Chinese, English captions translated by people (test photos only)",
    "zhb": "Chinese, translated by Baidu's machine",
    "zhg": "Chinese, translated by Google's machine",
    "enc": "the English captions",
}


def _chosen_sets(path: Path, files: Files, options: dict[str, Any]) -> Files:
    """Of a folder the files of the chosen captions; a file is read whatever it holds."""
    by_code = {says["code"].removesuffix("test"): (rows, file, says) for rows, file, says in files if path.is_dir()}
    missing = [code for code in options["captions"].split("+") if by_code and code not in by_code]
    if missing:
        raise CollectionError(
            f"{path}: no captions {missing[0]!r} ({_CHINESE_SETS[missing[0]]}).",
            hint=f"there are: {', '.join(by_code)}; others: {flickr8k_cn.obtain}",
            code="collection-no-captions",
        )
    return [by_code[code] for code in options["captions"].split("+")] if by_code else files


def _is_flickr8k_cn(path: Path) -> bool:
    if not path.is_file():
        return path.is_dir() and bool(flickr8k_cn.tables[0].find(path))
    return re.match(r"[^\t#]+#(zh|en)[a-z]*#\d+[ \t]", _first_line(path).decode("utf-8", "replace")) is not None


flickr8k_cn = published(
    "flickr8k-cn",
    sniff=_is_flickr8k_cn,
    choose=_chosen_sets,
    begin=_read_lists,
    batch=_split_by_lists,
    finish=_tell_lists,
    parse={"captions": lambda text: "+".join(map(one_of(*_CHINESE_SETS), text.split("+")))},
)


_CAPS = re.compile(r"^(?P<prefix>.*?)(?P<split>train|dev|val|testall|test)_caps\.txt(?:\.gz|\.xz)?$")


def _is_vsepp(path: Path) -> bool:
    if path.is_dir():
        return any((match := _CAPS.match(file.name)) and not match["prefix"] for file in path.iterdir())
    return _CAPS.match(path.name) is not None


@reader("vsepp", sniff=_is_vsepp)
def vsepp(path: Path, *, captions_per_image: int, splits: str | None, caption_ids: str | Path | None) -> Draft:
    """Read a folder of `*_caps.txt`, or one such file (also `coco_precomp`, `f30k_precomp` of SCAN and its kin)."""
    # - Line i belongs to image i // 5 (`captions_per_image`). An empty line is an empty caption and keeps its place.
    # - Image ids come from `{split}_ids.txt`: one id per image, or one per caption, each image repeated five times in a
    #   row. Both occur; the number of lines says which it is. `id_mapping.json` (id to file name), where there is one,
    #   names the pictures, and COCO's number in that name becomes the image id. With no ids file images are called by
    #   split and position ("test/17"), and have no pictures.
    # - Splits: "dev" is called "val" here, "testall" "test". Where both `testall` and `test` are there (COCO), `test`
    #   is left out: it is the first 1,000 images of `testall`.
    files = [path] if path.is_file() else _files_in(path)
    matched = [(match, file) for file in files if (match := _CAPS.match(file.name))]
    if not matched:
        raise CollectionError(f"{path}: no *_caps.txt here.", hint="expected files such as test_caps.txt")
    prefixes = sorted({match["prefix"] for match, _ in matched})
    if len(prefixes) > 1:
        raise CollectionError(f"{path}: several collections ({', '.join(prefixes)}).", hint="name one *_caps.txt")
    by_split = {match["split"]: file for match, file in matched}
    order = [split for split in ("train", "dev", "val", "test", "testall") if split in by_split]
    wanted = order if splits is None else splits.split(",")
    if splits is None and "testall" in order and "test" in order:
        wanted.remove("test")
    for split in wanted:
        if split not in by_split:
            raise CollectionError(f"{path}: no {split}_caps.txt.", hint=nearest(split, order), code="no-caps-txt")
    name = prefixes[0].strip("_") or (path.name if path.is_dir() else path.absolute().parent.name)
    folder = by_split[wanted[0]].parent
    draft = Draft(name, folder, f"VSE++ captions {', '.join(by_split[split].name for split in wanted)}")
    if len(wanted) > 1 and caption_ids is not None:
        raise CollectionError(f"{path}: caption_ids= belongs to one split; name one *_caps.txt, not the folder.")
    own_ids = None if caption_ids is None else read_ids(caption_ids)
    for split in wanted:
        ids_file = find_file(folder / f"{prefixes[0]}{split}_ids.txt")
        _add_split(draft, by_split[split], split, ids_file, captions_per_image, own_ids)
    if all(name is None for name in draft.names):
        draft.names = []
        draft.notes.append("no picture names (no ids with id_mapping.json)")
    return draft


def _add_split(
    draft: Draft, caps: Path, split: str, ids_file: Path | None, per_image: int, caption_ids: list[str] | None
) -> None:
    """The captions of one split of VSE++, and its images."""
    lines = read_lines(caps)
    if len(lines) % per_image:
        raise CollectionError(
            f"{caps}: {len(lines):,} lines are no multiple of {per_image}.",
            hint="is the file complete? captions_per_image= says how many lines an image has",
            code="lines-no-multiple",
        )
    if caption_ids is not None and len(caption_ids) != len(lines):
        raise CollectionError(
            f"{caps}: {len(lines):,} captions, but {len(caption_ids):,} caption ids.", code="captions-caption-ids"
        )
    count = len(lines) // per_image
    mapping_file = caps.parent / "id_mapping.json"
    names: list[str | None] = [None] * count
    ids = [f"{split}/{number}" for number in range(count)]
    if ids_file is not None:
        ids = _image_ids(ids_file, count, per_image)
        if mapping_file.is_file():
            mapping = read_json(mapping_file)
            names = [mapping.get(own) for own in ids]
            for own, name in zip(ids, names, strict=True):
                if name is None:
                    draft.fault(f"{ids_file.name}: id {own} is not in {mapping_file.name}")
            ids = [own if name is None else image_id(name) for own, name in zip(ids, names, strict=True)]
    for own, name in zip(ids, names, strict=True):
        draft.add_image(own, name, {"testall": "test", "dev": "val"}.get(split, split))
    for number, line in enumerate(lines):
        image, position = ids[number // per_image], number % per_image
        draft.add_caption(f"{image}#{position}" if caption_ids is None else caption_ids[number], line, image)


def _image_ids(file: Path, images: int, per_image: int) -> list[str]:
    ids = read_ids(file)
    if len(ids) == images:
        return ids
    if len(ids) != images * per_image:
        raise CollectionError(
            f"{file}: {len(ids):,} ids, but there are {images:,} images with {per_image} captions each.",
            hint=f"expected {images:,} ids, or {images * per_image:,} with every image repeated {per_image} times",
            code="ids-images-captions-each",
        )
    for start in range(0, len(ids), per_image):
        if len(set(ids[start : start + per_image])) > 1:
            raise CollectionError(
                f"{file}, line {start + 1}: the {per_image} captions of one image have different image ids: "
                f"{', '.join(ids[start : start + per_image])}.",
                code="captions-one-image-different",
            )
    return ids[::per_image]


# Captions in several languages.

_MULTI30K_TEXTS = re.compile(r"^(?P<part>[a-z0-9_]+)(?:\.(?P<number>\d+))?\.(?P<language>[a-z]{2})$")
_MULTI30K_IMAGES = re.compile(r"^(?P<part>[a-z0-9_]+?)(?:_images)?\.txt$")


def _multi30k_files(path: Path, task: str) -> tuple[dict[tuple[str, str, str], Path], dict[str, Path]]:
    """The captions by (part, language, number), and the lists of images by part."""

    def matching(folder: Path, start: str, pattern: re.Pattern[str]) -> Iterator[tuple[re.Match[str], Path]]:
        for file in _files_in(folder):
            match = pattern.match(plain_name(file).removeprefix(start)) if file.name.startswith(start) else None
            if match and file.is_file():
                yield match, file

    flat = f"task{task}-"
    places: list[tuple[Path, str, Path, str]] = [(path, flat, path, f"{flat}splits-")]
    folders = (path, path / f"task{task}", path / "data" / f"task{task}")
    places += [(folder / "raw", "", folder / "image_splits", "") for folder in folders]
    texts: dict[tuple[str, str, str], Path] = {}
    lists: dict[str, Path] = {}
    for folder, start, list_folder, list_start in places:
        for match, file in matching(folder, start, _MULTI30K_TEXTS):
            texts.setdefault((match["part"], match["language"], match["number"] or ""), file)
        for match, file in matching(list_folder, list_start, _MULTI30K_IMAGES):
            lists.setdefault(match["part"], file)
    first = {"train": 0, "val": 1}
    return texts, {part: lists[part] for part in sorted(lists, key=lambda part: (first.get(part, 2), part))}


def _is_multi30k(path: Path) -> bool:
    try:
        return path.is_dir() and any(all(_multi30k_files(path, task)) for task in ("1", "2"))
    except (OSError, CollectionError):
        return False


@reader("multi30k", sniff=_is_multi30k)
def multi30k(path: Path, *, task: str) -> Draft:
    """Read the repository's folder `data`, or its files in one folder."""
    # Splits are "train", "val", "test" (of 2016), and "test_2017_flickr", "test_2017_mscoco", "test_2018_flickr".
    # Photos are called as in Flickr30k (`1007129816.jpg`); those of Flickr8k are found too, as far as they are the
    # same. A test set that was not translated into a language has none of it.
    texts, lists = _multi30k_files(path, task)
    missing = [] if texts else [f"no captions of task {task} (train.de.gz, or task{task}-train.de.gz)"]
    missing += [] if lists else [f"no lists of the images of task {task} (image_splits/train.txt)"]
    if missing:
        raise multi30k.lacks(path, *missing)
    draft = Draft(f"Multi30K task {task}", path, f"Multi30K {path.absolute().name}/, task {task}")
    for part, named in lists.items():
        images = [line.strip().split("#", 1)[0] for line in read_lines(named)]
        files = sorted(key for key in texts if key[0] == part)
        if not files:
            draft.notes.append(f"no captions of {part}")
            continue
        for image in dict.fromkeys(images):
            draft.add_image(image, image, "test" if part in ("test_2016_flickr", "test_2016") else part)
        for key in files:
            _, language, number = key
            times: dict[str, int] = {}
            for image, text in zip(images, _lines_of(draft, texts[key], images), strict=False):
                times[image] = times.get(image, -1) + 1  # an image of COCO may be listed with two of its captions
                again = f"#{times[image]}" if times[image] else ""
                own = f"{image}#{language}{f'#{number}' if number else ''}{again}"
                draft.add_caption(own, text.strip(), image, language)
    if unknown := sorted({key[0] for key in texts} - lists.keys()):
        draft.notes.append(f"no list of images for {', '.join(unknown)}: left out")
    return draft


_XTD_NAMES = "test_image_names.txt"
_XTD_CAPTIONS = re.compile(r"^test_1kcaptions_([a-z]{2})\.txt$")


@reader("xtd", sniff=lambda path: any((folder / _XTD_NAMES).is_file() for folder in (path, path / "XTD10")))
def xtd(path: Path) -> Draft:
    """Read `test_image_names.txt` and `test_1kcaptions_LANGUAGE.txt`, line by line the captions of the photos."""
    # Every photo is in the split "test". Image ids are those of COCO, so that COCO's judgements apply; caption ids are
    # "image#language". Japanese is "ja", as in ISO 639 (the file says "jp").
    folders = [path, *(path / name for name in ("XTD10", "MIC", "STAIR"))]
    folders += [path.parent / name for name in ("MIC", "STAIR") if path.name == "XTD10"]
    names = next((folder / _XTD_NAMES for folder in folders if (folder / _XTD_NAMES).is_file()), None)
    texts: dict[str, Path] = {}
    for folder in folders:
        for file in _files_in(folder):
            if match := _XTD_CAPTIONS.match(plain_name(file)):
                texts.setdefault("ja" if match[1] == "jp" else match[1], file)
    if names is None or not texts:
        missing = [] if names else [f"no {_XTD_NAMES}"]
        raise xtd.lacks(path, *missing, *([] if texts else ["no test_1kcaptions_en.txt (or of another language)"]))
    images = [line.strip() for line in read_lines(names)]
    draft = Draft("XTD10", names.parent, f"XTD10 {path.absolute().name}/")
    for image in images:
        draft.add_image(image_id(image), image, "test")
    for language, file in sorted(texts.items()):
        for image, text in zip(images, _lines_of(draft, file, images), strict=False):
            draft.add_caption(f"{image_id(image)}#{language}", text.strip(), image_id(image), language)
    return draft


def _all_languages(reading: LayoutReading, place: str, row: Row) -> Row:
    """The row with the captions of all languages behind each other."""
    texts, ids, languages = [], [], []
    key = row.get("image/key")
    for language, content in row.items():
        listed = content.get("caption") if isinstance(content, dict) else None
        for position, text in enumerate(listed or ()):
            texts.append(str(text))
            ids.append(f"{key}#{language}#{position}")
            languages.append(language)
    locale = row.get("image/locale")
    return {**row, "locale": locale, "caption": texts, "caption_id": ids, "language": languages}


def _some_captions(reading: LayoutReading) -> None:
    if reading.draft.ids and not reading.draft.texts:
        raise xm3600.lacks(reading.path, f"no captions in {reading.files[0][1].name} ({{LANGUAGE: {{caption: […]}}}})")


xm3600 = published("xm3600", row=_all_languages, finish=_some_captions)


# Long captions.


def _docci_splits(reading: LayoutReading, batch: Batch) -> None:
    # The two sets for qualitative work (100 images each) are no part of train and test.
    batch.columns["split"] = [
        own.rpartition("_")[0] if type(own) is str and own[:5] == "qual_" and own.count("_") > 1 else split
        for own, split in zip(batch["example_id"], batch["split"], strict=True)
    ]


docci = published("docci", batch=_docci_splits)


def _is_urban1k(path: Path) -> bool:
    try:
        return (path / "image").is_dir() and any(file.suffix == ".txt" for file in (path / "caption").iterdir())
    except OSError:
        return False


@reader("urban1k", sniff=_is_urban1k)
def urban1k(path: Path) -> Draft:
    """Read the folder: `image/1.jpg` with its caption in `caption/1.txt`, and so on."""
    # Every photo is in the split "test". Ids are the names of the photos. A caption is the whole text of its file
    # without white space at its ends; the code of Long-CLIP takes the first line, which is the same in the published
    # files.
    missing = [f"no folder {name}/" for name in ("image", "caption") if not (path / name).is_dir()]
    if missing:
        raise urban1k.lacks(path, *missing)
    draft = Draft("Urban1k", path, f"Urban1k {path.absolute().name}/")
    photos = {file.stem: file.name for file in (path / "image").iterdir() if is_picture_name(file.name)}
    texts = {file.stem: file for file in (path / "caption").iterdir() if file.suffix == ".txt"}
    for stem in sorted(photos.keys() | texts.keys(), key=lambda stem: (len(stem), stem)):
        if stem not in photos or stem not in texts:
            draft.fault(f"image/{stem}.jpg is missing" if stem in texts else f"caption/{stem}.txt is missing")
            continue
        name = photos[stem]
        draft.add_image(name, f"image/{name}", "test")
        draft.add_caption(f"{name}#0", read_text(texts[stem]).strip(), name)
    compare_counts(draft, {"images": 1_000}, {"images": len(draft.ids)})
    return draft


def _dci_begin(reading: LayoutReading) -> None:
    """The split of each annotation file."""
    folder, draft = reading.files[0][1].parent.parent, reading.draft
    draft.root = folder
    draft.source = f"Densely Captioned Images {folder.absolute().name}/, {reading.options['text']}"
    reading.memory = {"splits": {}, "without": 0}
    if not (folder / "splits.json").is_file():
        draft.notes.append("no splits.json: no splits")
        return
    content = read_json(folder / "splits.json")
    if not isinstance(content, dict) or not all(isinstance(names, list) for names in content.values()):
        raise CollectionError(f"{folder / 'splits.json'}: expected {{split: [annotation files]}}.")
    reading.memory["splits"] = {str(name): str(split) for split, names in content.items() for name in names}


def _dci_row(reading: LayoutReading, place: str, row: Row) -> Row | None:
    """The row with the chosen captions, and how many masked parts there are."""
    if not row.get("image") or not row.get("short_caption"):
        return row  # that they are missing is said where columns are looked up
    texts = _dci_texts(row, reading.options["text"])
    splits = reading.memory["splits"]
    reading.memory["without"] += not texts
    split = splits.get(place, "unlisted" if splits else "")
    row |= {"caption": texts, "split": split, "masks": len(row.get("mask_data") or ())}
    return row if texts else None


def _dci_finish(reading: LayoutReading) -> None:
    without, text = reading.memory["without"], reading.options["text"]
    if without and not reading.draft.ids:
        raise CollectionError(
            f"{reading.files[0][1].parent}: no photo has {text}.",
            hint="the summaries are in the folder complete/ of dci.tar.gz",
            code="no-photo",
        )
    if without:
        reading.draft.notes.append(f"{counted(without, 'photos')} without {text} left out")


def _dci_texts(entry: Mapping[str, Any], text: str) -> list[str]:
    short, extra = str(entry["short_caption"]).strip(), str(entry.get("extra_caption") or "").strip()
    extended = "\n".join(filter(None, [short, extra]))
    if text == "complete":
        return ["\n".join([extended, *filter(None, map(_mask_text, (entry.get("mask_data") or {}).values()))])]
    if text in ("short", "extended"):
        return [short if text == "short" else extended]
    summaries = (entry.get("summaries") or {}).get("base")
    listed = [summaries] if isinstance(summaries, str) else list(summaries or ())
    texts = list(filter(None, (str(summary).strip() for summary in listed)))
    return texts[:1] if text == "summary" else texts


def _mask_text(mask: Mapping[str, Any]) -> str:
    """The text of one masked part: label and caption; the label alone where the mask is poor; nothing if unusable."""
    quality, label = mask.get("mask_quality", 0), str(mask.get("label") or "").strip()
    if quality == 2:
        return ""
    caption = str(mask.get("caption") or "").strip()
    return f"{label}: {caption}" if quality == 0 and caption else label


dci: SourceLayout = published(
    "dci",
    sniff=lambda path: (
        bool(dci.tables[0].find(path))
        and any((folder / "splits.json").is_file() for folder in (path, path / "densely_captioned_images"))
    ),
    lack=lambda path: (
        "no folder annotations/ or complete/ with a JSON file for each photo"
        + ("" if (path / "splits.json").is_file() else ", no splits.json")
    ),
    begin=_dci_begin,
    row=_dci_row,
    finish=_dci_finish,
)
