"""Published collections of pictures with captions: each is what its makers say of it, and how its files are read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from visir.collections.draft import Draft
from visir.collections.picture_kinds import is_picture_name
from visir.collections.readers.names import (
    SPLITS,
    compare_counts,
    has_key,
    head,
    identifier,
    image_id,
    json_head,
    plain_name,
    plain_stem,
    read_array,
    read_ids,
    split_in,
    whole,
)
from visir.collections.sources import Option, one_of, reader_of
from visir.collections.tables import faults_into, json_lines
from visir.display import counted
from visir.errors import CollectionError, VisirError, nearest
from visir.files import find_file, read_json, read_lines, read_text

_SPLIT_NAME = Option("split_name", "the split of all its images (default: by the file's name)")
_SPLIT_LISTS = Option(
    "splits", "folder of the split lists, or the lists, comma-separated; 'none' for none (default: beside)"
)


def _files_in(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


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


def _explain(fault: Exception) -> str:
    return f"no {fault.args[0]!r}" if isinstance(fault, KeyError) else str(fault)


def _is_karpathy(path: Path) -> bool:
    text = json_head(path)
    return text.startswith(b"{") and (has_key(text, "sentids") or has_key(text, "sentences", "raw"))


@reader_of(
    name="karpathy",
    title="Karpathy JSON (COCO, Flickr30k, Flickr8k)",
    layout="dataset_coco.json: {dataset, images: [{filename, filepath?, cocoid?, imgid, split, sentids, "
    "sentences: [{raw, sentid, imgid, tokens}]}]}; pictures beside it or given",
    reference="Karpathy and Fei-Fei, Deep Visual-Semantic Alignments (CVPR 2015), caption_datasets.zip",
    sniff=_is_karpathy,
    options=(
        Option(
            "restval",
            "'train': COCO's restval images belong to train; 'keep': they stay a split",
            "train",
            one_of("train", "keep"),
        ),
    ),
)
def karpathy(path: Path, *, restval: str) -> Draft:
    """Read `dataset_{coco,flickr30k,flickr8k}.json`: images, their sentences, and the splits that everybody uses."""
    # - Image ids: `cocoid` where there is one (so that CxC, ECCV Caption and COCO's own annotations fit), else
    #   `filename`.
    # - Caption ids: `sentid`. In `dataset_coco.json` these are COCO's annotation ids.
    # - All sentences are kept. COCO images have five to seven; protocols that use five take the first five.
    content = read_json(path)
    if not isinstance(content, dict) or not isinstance(content.get("images"), list):
        raise CollectionError(f"{path}: not Karpathy's layout: no list called 'images'.", hint="visir data formats")
    draft = Draft(str(content.get("dataset") or plain_stem(path)), path.parent, f"Karpathy JSON {path.name}")
    for number, image in enumerate(content["images"]):
        try:
            filename, sentences, split = image["filename"], image["sentences"], image["split"]
            cocoid, folder, imgid = image.get("cocoid"), image.get("filepath") or "", image.get("imgid")
            texts = all(isinstance(value, str) for value in (filename, split, folder))
            if not texts or not isinstance(sentences, list):
                raise TypeError("filename, filepath and split must be text, sentences a list")
            own = filename if cocoid is None else identifier(cocoid)
        except (KeyError, TypeError) as fault:
            draft.fault(f"images[{number}]: {_explain(fault)}")
            continue
        split = "train" if restval == "train" and split == "restval" else split
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


_OFFICIAL = re.compile(r"^captions_(train|val|test)(20\d\d)\.json(?:\.gz|\.xz)?$")


def _is_coco(path: Path) -> bool:
    if path.is_dir():  # the folder of the distribution; elsewhere other collections may lie beside the file
        return path.name == "annotations" and any(_OFFICIAL.match(file.name) for file in path.iterdir())
    text = json_head(path)
    return text.startswith(b"{") and (has_key(text, "file_name", "images") or has_key(text, "annotations", "image_id"))


@reader_of(
    name="coco_captions",
    title="COCO captions JSON",
    layout="captions_val2017.json: {images: [{id, file_name}], annotations: [{id, image_id, caption}]}, or the folder "
    "annotations/ with one year of them",
    reference="Chen et al., Microsoft COCO Captions (2015), cocodataset.org",
    sniff=_is_coco,
    options=(_SPLIT_NAME,),
)
def coco_captions(path: Path, *, split_name: str | None) -> Draft:
    """Read one captions file, or a folder of `captions_{train,val}YYYY.json` merged into one collection."""
    # Image ids are COCO's image ids, caption ids its annotation ids, both as text. Beware: COCO's own train and val are
    # not the splits of the retrieval literature, which uses Karpathy's: read `dataset_coco.json` for those.
    files = [path] if path.is_file() else [file for file in sorted(path.iterdir()) if _OFFICIAL.match(file.name)]
    if not files:
        raise CollectionError(f"{path}: no captions_*.json in this folder.", hint="name the file")
    years = {match[2] for file in files if len(files) > 1 and (match := _OFFICIAL.match(file.name))}
    if len(years) > 1:
        raise CollectionError(
            f"{path}: captions of {' and '.join(sorted(years))}, which hold the same pictures in other splits.",
            hint="name one file, or keep one year in the folder",
            code="captions-hold-same-pictures",
        )
    root = path.parent if path.is_file() else path
    draft = Draft(plain_stem(path), root, f"COCO captions {', '.join(file.name for file in files)}")
    for file in files:
        content = read_json(file)
        lists = content if isinstance(content, dict) else {}
        missing = [key for key in ("images", "annotations") if not isinstance(lists.get(key), list)]
        if missing:
            raise CollectionError(
                f"{file}: not COCO's captions layout: no list {' and no list '.join(missing)}.",
                code="not-coco-captions-layout",
            )
        split = split_in(file.name) if split_name is None else split_name
        for number, image in enumerate(lists["images"]):
            try:
                name = image["file_name"]
                if not isinstance(name, str):
                    raise TypeError("file_name is not text")
                draft.add_image(identifier(image["id"]), name, split)
            except (KeyError, TypeError) as fault:
                draft.fault(f"{file.name}: images[{number}]: expected id and file_name ({fault})")
        for number, annotation in enumerate(lists["annotations"]):
            try:
                text = annotation["caption"]
                if not isinstance(text, str):
                    raise TypeError("caption is not text")
                draft.add_caption(identifier(annotation["id"]), text, identifier(annotation["image_id"]))
            except (KeyError, TypeError) as fault:
                draft.fault(f"{file.name}: annotations[{number}]: expected id, image_id and caption ({fault})")
    return draft


def _is_annotation_list(path: Path) -> bool:
    text = json_head(path)
    return text.startswith(b"[") and has_key(text, "image") and (has_key(text, "caption") or has_key(text, "captions"))


@reader_of(
    name="annotation_list",
    title="annotation list (ALBEF, BLIP)",
    layout='coco_karpathy_test.json: [{"image": name, "caption": text or [texts]}]',
    reference="Li et al., ALBEF (NeurIPS 2021), BLIP (ICML 2022)",
    sniff=_is_annotation_list,
    options=(
        _SPLIT_NAME,
        Option("captions_per_image", "keep the first so many captions of each image", None, whole(1)),
        Option("caption_ids", "list of caption ids (.npy or .txt) in the order of the captions kept"),
    ),
)
def annotation_list(
    path: Path, *, split_name: str | None, captions_per_image: int | None, caption_ids: str | Path | None
) -> Draft:
    """Read `[{"image": "val2014/COCO_val2014_….jpg", "caption": text or list of texts}, …]`, or with "captions"."""
    # - One entry per image, or, as in the training files, one per caption: entries of the same image are joined.
    # - Image ids are those of Karpathy's JSON: COCO's number where the name holds one, else the file name.
    content = read_json(path)
    if not isinstance(content, list):
        raise CollectionError(f"{path}: expected a list of {{image, caption}}.")
    draft = Draft(plain_stem(path), path.parent, f"annotation list {path.name}")
    split = split_in(plain_stem(path)) if split_name is None else split_name
    texts_of: dict[str, list[str]] = {}
    name_of: dict[str, str] = {}
    for number, entry in enumerate(content):
        try:
            name = entry["image"]
            texts = entry["caption"] if "caption" in entry else entry["captions"]
        except (KeyError, TypeError) as fault:
            draft.fault(f"[{number}]: expected image and caption ({fault})")
            continue
        texts = [texts] if isinstance(texts, str) else texts
        if not isinstance(name, str) or not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            draft.fault(f"[{number}] ({name}): image must be text, caption text or a list of texts")
            continue
        own = image_id(name)
        if name_of.setdefault(own, name) != name:
            draft.fault(f"[{number}]: {name!r} and {name_of[own]!r} are both image {own!r}")
        texts_of.setdefault(own, []).extend(texts)
    for own, texts in texts_of.items():
        draft.add_image(own, name_of[own], split)
        for position, text in enumerate(texts[:captions_per_image]):
            draft.add_caption(f"{own}#{position}", text, own)
    if caption_ids is not None:
        ids, count = read_ids(caption_ids), len(draft.texts)
        draft.caption_ids[: len(ids)] = ids[:count]
        if len(ids) != count:
            draft.fault(
                f"{Path(str(caption_ids)).name} has {len(ids):,} ids, and there are {count:,} captions; "
                "captions_per_image=5 keeps the first five of each image"
            )
    return draft


@reader_of(
    name="fine_grained",
    title="MSCOCO-FG, Flickr30K-FG",
    layout="MSCOCO_FG_ann.json: {stem: [5 captions]}; MSCOCO_FG_img_filenames.npy: names of the image pool",
    reference="Chen, Yao, Jin, Rethinking Benchmarks for Cross-modal Image-text Retrieval (SIGIR 2023)",
    sniff=lambda path: plain_name(path).endswith("_ann.json") and json_head(path).startswith(b"{"),
    options=(Option("pool", "the image pool's .npy (default: beside it, or in ../Images); 'none' for none"),),
)
def fine_grained(path: Path, *, pool: str | Path | None) -> Draft:
    """Read `*_ann.json`, `{image stem: [refined captions]}`, with its pool `*_img_filenames.npy`."""
    # Captioned images are in the split "test", the others of the pool in "pool"; the benchmark's text-to-image gallery
    # is both ("test+pool": 31,244 images for COCO, 6,867 for Flickr30k). COCO's extra images are from unlabeled2017.
    # Image ids are those of Karpathy's JSON, so the two can be compared. Caption ids are "image#n": the refined texts
    # are other captions than those whose ids COCO gave.
    content = read_json(path)
    if not isinstance(content, dict):
        raise CollectionError(f"{path}: expected {{image: [captions]}}.")
    stem = plain_stem(path).removesuffix("_ann")
    draft = Draft(stem, path.parent, f"fine-grained captions {path.name}")
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
    pool_file = None if pool == "none" else Path(pool)
    names = [] if pool_file is None else [str(name) for name in read_array(pool_file).tolist()]
    by_stem = {Path(name).stem: name for name in names}
    if pool_file is None:
        draft.notes.append("no image pool")
    for stem, texts in content.items():
        name = by_stem.pop(stem, None)
        if name is None and pool_file is not None:
            draft.fault(f"image {stem!r} has captions, but is not in {pool_file.name}")
        name = name or f"{stem}.jpg"
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            draft.fault(f"image {stem!r}: expected a list of captions")
            continue
        own = image_id(name)
        draft.add_image(own, name, "test")
        for number, text in enumerate(texts):
            draft.add_caption(f"{own}#{number}", text, own)
    for name in by_stem.values():
        draft.add_image(image_id(name), name, "pool")  # searched, without captions
    if pool_file is not None:
        draft.notes.append(f"pool {pool_file.name}")
    return draft


# Lines: those of Flickr's token files, with splits from lists of names beside them, and those of VSE++.

_TOKEN = re.compile(r"^(?P<image>[^\t]+)#(?P<number>\d+)\t(?P<text>.*)$", re.DOTALL)
_LIST = re.compile(r"^(?:.*[_.]|flickr8k)?(train|val|valid|dev|test)(?:Images|_images|_ids)?\.txt$", re.IGNORECASE)


class _TokenLines:
    """Puts the lines of token files into a draft, with the splits that lists of names give."""

    def __init__(
        self, draft: Draft, folder: Path, splits: str | Path | list[str] | None, path: Path, unlisted: str
    ) -> None:
        self.draft, self.unlisted = draft, unlisted
        self.lists = _split_lists(folder, splits, path)
        self._split_of: dict[str, str] = {}
        self._seen: dict[str, bool] = {}
        for file in self.lists:
            match = _LIST.match(plain_name(file))
            split = split_in(match[1]) if match else split_in(plain_stem(file)) or plain_stem(file)
            for name in filter(None, map(str.strip, read_lines(file))):
                if self._split_of.setdefault(name, split) != split:
                    draft.fault(f"image {name!r} is in the lists of {self._split_of[name]} and of {split}")

    def add(self, image: str, caption: str, text: str, language: str | None = None) -> None:
        """One caption, and its image where it is new."""
        if image not in self._seen:
            split = self._split_of.pop(image, None) or self._split_of.pop(image.removesuffix(".jpg"), None)
            self._seen[image] = not self.lists or split is not None or self.unlisted == "keep"
            if self._seen[image]:
                self.draft.add_image(image, image, (split or "unlisted") if self.lists else "")
        if self._seen[image]:
            self.draft.add_caption(caption, text, image, language)

    def finish(self, name: str) -> None:
        """Note what the lists did, and images that they name and the files called `name` do not."""
        for image, split in self._split_of.items():
            self.draft.fault(f"the list of {split} names image {image!r}, which has no captions in {name}")
        if self.lists:
            self.draft.notes.append(f"splits from {', '.join(file.name for file in self.lists)}")
        if left_out := len(self._seen) - sum(self._seen.values()):
            self.draft.notes.append(f"{counted(left_out, 'images')} in no split list left out")


def _split_lists(folder: Path, splits: str | Path | list[str] | None, path: Path) -> list[Path]:
    """The split lists: those in `folder`, or those that `splits` says; never `path` itself."""
    if splits == "none":
        return []
    if isinstance(splits, list) or (isinstance(splits, str) and "," in splits):
        return [Path(file) for file in (splits.split(",") if isinstance(splits, str) else splits)]
    folder = folder if splits is None else Path(splits)
    if folder.is_file():
        return [folder]
    if not folder.is_dir():
        raise CollectionError(f"{folder}: no such folder.", hint="splits= is the folder of the split lists")
    lists = [file for file in _files_in(folder) if _LIST.match(plain_name(file)) and file != path]
    if splits is not None and not lists:
        raise CollectionError(
            f"{folder}: no split lists (files such as test.txt, Flickr_8k.testImages.txt) in it.",
            code="no-split-lists-files",
        )
    return lists


@reader_of(
    name="flickr_tokens",
    title="Flickr token file",
    layout="Flickr8k.token.txt or results_20130124.token: name.jpg#n<TAB>caption; lists of the splits beside it",
    reference="Hodosh, Young, Hockenmaier (JAIR 47, 2013); Young et al. (TACL 2014)",
    sniff=lambda path: re.match(rb"^(?:\xef\xbb\xbf)?[^\t\n]+#\d+\t", _first_line(path)) is not None,
    options=(
        _SPLIT_LISTS,
        Option("unlisted", "images in no list: 'keep' as split 'unlisted', or 'drop'", "keep", one_of("keep", "drop")),
    ),
)
def flickr_tokens(path: Path, *, splits: str | Path | list[str] | None, unlisted: str = "keep") -> Draft:
    """Read `name.jpg#n<TAB>caption` lines."""
    # Image ids are file names, caption ids `name.jpg#n`, as Flickr8k's human judgements call them.
    draft = Draft(plain_stem(path), path.parent, f"token file {path.name}")
    tokens = _TokenLines(draft, path.parent, splits, path, unlisted)
    for number, line in enumerate(read_lines(path), start=1):
        match = _TOKEN.match(line)
        if match is None:
            draft.fault(f"{path.name}, line {number}: expected name#number<TAB>caption, found {line[:60]!r}")
            continue
        tokens.add(match["image"], f"{match['image']}#{match['number']}", match["text"])
    tokens.finish(path.name)
    return draft


_CHINESE_SETS = {
    "zhc": "Chinese, written by people",
    "zhm": "Chinese, English captions translated by people (test photos only)",
    "zhb": "Chinese, translated by Baidu's machine",
    "zhg": "Chinese, translated by Google's machine",
    "enc": "the English captions",
}
_CHINESE_LINE = re.compile(r"^(?P<image>[^\t#]+)#(?P<set>[a-z]+)#(?P<number>\d+)[ \t](?P<text>.*)$", re.DOTALL)
_CHINESE_FILE = re.compile(r"^flickr8k(enc|zh[a-z]+?)(?:test)?\.captions?\.txt$")


def _is_flickr8k_cn(path: Path) -> bool:
    if path.is_dir():
        try:
            return any(_CHINESE_FILE.match(plain_name(file)) for file in path.iterdir())
        except OSError:
            return False
    match = _CHINESE_LINE.match(_first_line(path).decode("utf-8", "replace"))
    return match is not None and match["set"][:2] in ("zh", "en")


@reader_of(
    name="flickr8k-cn",
    title="Flickr8k-CN (Chinese captions)",
    layout="flickr8kzhc.caption.txt (also zhm, zhb, zhg, enc): name.jpg#zhc#n caption; photos of Flickr8k",
    reference="Li et al., Adding Chinese Captions to Images (ICMR 2016)",
    obtain="https://github.com/li-xirong/flickr8kcn (folder data/)",
    sniff=_is_flickr8k_cn,
    options=(
        Option(
            "captions",
            "of a folder: zhc (by people), zhm, zhb, zhg (translations), enc, or several: zhc+enc",
            "zhc",
            lambda text: "+".join(map(one_of(*_CHINESE_SETS), text.split("+"))),
        ),
        _SPLIT_LISTS,
        Option("unlisted", "photos in no list: 'keep' as split 'unlisted', or 'drop'", "keep", one_of("keep", "drop")),
    ),
)
def flickr8k_cn(path: Path, *, captions: str, splits: str | Path | list[str] | None, unlisted: str) -> Draft:
    """Read `flickr8kzhc.caption.txt` and its siblings: `name.jpg#zhc#n caption` in every line."""
    # Ids are those of Flickr8k: file names, and `name.jpg#zhc#n`. Captions have the language "zh" or "en". A file is
    # read whatever it holds.
    folder, files = (path.parent, [path]) if path.is_file() else (path, [])
    if not files:
        by_code = {match[1]: file for file in _files_in(path) if (match := _CHINESE_FILE.match(plain_name(file)))}
        if not by_code:
            raise flickr8k_cn.lacks(path, "no flickr8kzhc.caption.txt in it")
        missing = [code for code in captions.split("+") if code not in by_code]
        if missing:
            raise CollectionError(
                f"{path}: no captions {missing[0]!r} ({_CHINESE_SETS[missing[0]]}).",
                hint=f"there are: {', '.join(by_code)}; others: {flickr8k_cn.obtain}",
                code="collection-no-captions",
            )
        files = [by_code[code] for code in captions.split("+")]
    draft = Draft("Flickr8k-CN", folder, f"Flickr8k-CN {', '.join(file.name for file in files)}")
    tokens = _TokenLines(draft, folder, splits, path, unlisted)
    for file in files:
        for number, line in enumerate(read_lines(file), start=1):
            match = _CHINESE_LINE.match(line)
            if match is not None:
                image, code = match["image"], match["set"]
                language = "en" if code.startswith("en") else "zh"
                tokens.add(image, f"{image}#{code}#{match['number']}", match["text"].strip(), language)
            elif line.strip():
                draft.fault(f"{file.name}, line {number}: expected name.jpg#zhc#0 caption, found {line[:60]!r}")
    tokens.finish(files[0].name)
    if not tokens.lists:
        draft.notes.append("no split lists beside it: splits=FOLDER takes those of Flickr8k")
    return draft


_CAPS = re.compile(r"^(?P<prefix>.*?)(?P<split>train|dev|val|testall|test)_caps\.txt(?:\.gz|\.xz)?$")


def _is_vsepp(path: Path) -> bool:
    if path.is_dir():
        return any((match := _CAPS.match(file.name)) and not match["prefix"] for file in path.iterdir())
    return _CAPS.match(path.name) is not None


@reader_of(
    name="vsepp",
    title="VSE++ / SCAN captions",
    layout="{train,dev,test,testall}_caps.txt, five lines per image; {split}_ids.txt and id_mapping.json if at hand",
    reference="Faghri et al., VSE++ (BMVC 2018); Lee et al., SCAN (ECCV 2018)",
    sniff=_is_vsepp,
    options=(
        Option("captions_per_image", "how many lines an image has", 5, whole(1)),
        Option("splits", "which splits of the folder, comma-separated, as the files are called"),
        Option("caption_ids", "list of caption ids (.npy or .txt), one per line of captions"),
    ),
)
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
            match = pattern.match(plain_name(file).removeprefix(start))
            if match and file.name.startswith(start) and file.is_file():
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


@reader_of(
    name="multi30k",
    title="Multi30K (English, German, French, Czech)",
    layout="data/task1/raw/train.de.gz … with data/task1/image_splits/train.txt …, line by line; task2: train.1.de.gz, "
    "train_images.txt; or the same files in one folder: task1-train.de.gz, task1-splits-train.txt",
    reference="Elliott et al. (VL 2016); Elliott et al. (WMT 2017); Barrault et al. (WMT 2018)",
    obtain="git clone https://github.com/multi30k/dataset; photos: Flickr30k (https://forms.illinois.edu/sec/229675)",
    sniff=_is_multi30k,
    options=(
        Option(
            "task",
            "1: translations of one caption; 2: five German captions, written independently",
            "1",
            one_of("1", "2"),
        ),
    ),
)
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


@reader_of(
    name="xtd",
    title="XTD10 (eleven languages)",
    layout="test_image_names.txt and test_1kcaptions_LANGUAGE.txt (also in MIC/ and STAIR/), one line for each photo; "
    "photos of COCO 2014",
    reference="Aggarwal, Kale, Towards Zero-shot Cross-lingual Image Retrieval (2020); Rajendran et al. (2016); "
    "Yoshikawa et al. (ACL 2017)",
    obtain="git clone https://github.com/adobe-research/Cross-lingual-Test-Dataset-XTD10; photos: "
    "http://images.cocodataset.org/zips/train2014.zip and val2014.zip",
    sniff=lambda path: any((folder / _XTD_NAMES).is_file() for folder in (path, path / "XTD10")),
)
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


@reader_of(
    name="xm3600",
    title="Crossmodal-3600 (36 languages)",
    layout="captions.jsonl: {image/key, image/locale, LANGUAGE: {caption: […]}, …} per line; photos KEY.jpg",
    reference="Thapliyal et al., Crossmodal-3600: A Massively Multilingual Multimodal Evaluation Dataset (EMNLP 2022)",
    obtain="https://google.github.io/crossmodal-3600/web-data/captions.zip and "
    "https://open-images-dataset.s3.amazonaws.com/crossmodal-3600/images.tgz, both unpacked",
    sniff=lambda path: has_key(_first_line(path / "captions.jsonl" if path.is_dir() else path), "image/key", "caption"),
)
def xm3600(path: Path) -> Draft:
    """Read `captions.jsonl`: a photo in every line, and under each language its captions."""
    # Every photo is in the split "test". Image ids are the keys; caption ids are "key#language#n". The texts are those
    # as written (`caption`), not the tokenised ones. A photo's `locale`, the language of the region where it was taken,
    # is one of the collection's facts.
    file = path if path.is_file() else path / "captions.jsonl"
    if not file.is_file():
        raise xm3600.lacks(path, "no captions.jsonl in it")
    draft = Draft("Crossmodal-3600", file.parent, f"Crossmodal-3600 {file.name}")
    locales: list[str | None] = []
    for line, row in json_lines(file, faults_into(draft.fault, file)):
        key = row.get("image/key")
        if not isinstance(key, str) or not key:
            draft.fault(f"{file.name}, {line}: no image/key")
            continue
        draft.add_image(key, f"{key}.jpg", "test")
        locales.append(row.get("image/locale"))
        for language, content in row.items():
            texts = content.get("caption") if isinstance(content, dict) else None
            for place, text in enumerate(texts or ()):
                draft.add_caption(f"{key}#{language}#{place}", str(text), key, language)
    if draft.ids and not draft.texts:
        raise xm3600.lacks(path, f"no captions in {file.name} ({{LANGUAGE: {{caption: […]}}}})")
    draft.facts = pa.table({"image_id": pa.array(draft.ids, pa.string()), "locale": pa.array(locales, pa.string())})
    counts = {"images": len(draft.ids), "languages": len(set(draft.languages))}
    compare_counts(draft, {"images": 3_600, "languages": 36}, counts)
    return draft


# Long captions.

_DOCCI_NAMES = ("docci_descriptions.jsonlines", "docci_descriptions.jsonl")
_DOCCI_COLUMNS = ("example_id", "image_file", "description")


@reader_of(
    name="docci",
    title="DOCCI (long descriptions)",
    layout="docci_descriptions.jsonlines: {example_id, split, image_file, description} per line; the photos of "
    "docci_images.tar.gz, unpacked beside it",
    reference="Onoe et al., DOCCI: Descriptions of Connected and Contrasting Images (ECCV 2024)",
    obtain="https://storage.googleapis.com/docci/data/docci_descriptions.jsonlines and docci_images.tar.gz from the "
    "same place",
    sniff=lambda path: (
        any((path / name).is_file() for name in _DOCCI_NAMES)
        if path.is_dir()
        else has_key(_first_line(path), *_DOCCI_COLUMNS)
    ),
)
def docci(path: Path) -> Draft:
    """Read `docci_descriptions.jsonlines`: `{example_id, split, image_file, description}` in every line."""
    # Ids are the `example_id`s. The splits are "train", "test", "qual_dev" and "qual_test"; the two sets for
    # qualitative work (100 images each) are no part of train and test.
    file = path if path.is_file() else next(filter(Path.is_file, (path / name for name in _DOCCI_NAMES)), None)
    if file is None:
        raise docci.lacks(path, f"no {_DOCCI_NAMES[0]} in it")
    draft = Draft("DOCCI", file.parent, f"DOCCI {file.name}")
    for place, row in json_lines(file, faults_into(draft.fault, file)):
        missing = [name for name in _DOCCI_COLUMNS if not isinstance(row.get(name), str)]
        if missing:
            draft.fault(f"{file.name}, {place}: no {', '.join(missing)}")
            continue
        own, prefix = row["example_id"], row["example_id"].rpartition("_")[0]
        split = prefix if prefix.startswith("qual_") else str(row.get("split") or "")
        draft.add_image(own, row["image_file"], split)
        draft.add_caption(f"{own}#0", row["description"], own)
    counts = {f"images of {split}": draft.splits.count(split) for split in ("train", "test")}
    compare_counts(draft, {"images of train": 9_647, "images of test": 5_000}, counts)
    return draft


def _is_urban1k(path: Path) -> bool:
    try:
        return (path / "image").is_dir() and any(file.suffix == ".txt" for file in (path / "caption").iterdir())
    except OSError:
        return False


@reader_of(
    name="urban1k",
    title="Urban1k (long captions)",
    layout="image/1.jpg … and caption/1.txt …, one text for each photo",
    reference="Zhang et al., Long-CLIP (ECCV 2024)",
    obtain="https://huggingface.co/datasets/BeichenZhang/Urban1k (Urban1k.zip, unpacked)",
    sniff=_is_urban1k,
)
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


_DCI_FOLDERS = ("complete", "annotations")


def _has_dci(folder: Path) -> bool:
    return any(any((folder / name).glob("*.json")) for name in _DCI_FOLDERS)


def _is_dci(path: Path) -> bool:
    folder = path / "densely_captioned_images" if (path / "densely_captioned_images").is_dir() else path
    return (folder / "splits.json").is_file() and _has_dci(folder)


@reader_of(
    name="dci",
    title="Densely Captioned Images (DCI, sDCI)",
    layout="densely_captioned_images/: annotations/*.json or complete/*.json {image, short_caption, extra_caption, "
    "mask_data, summaries}, splits.json {split: [files]}, photos/",
    reference="Urbanek et al., A Picture is Worth More Than 77 Text Tokens (CVPR 2024)",
    obtain="https://dl.fbaipublicfiles.com/densely_captioned_images/dci.tar.gz; the photos are of SA-1B "
    "(https://github.com/facebookresearch/DCI)",
    sniff=_is_dci,
    options=(
        Option(
            "text",
            "the captions: extended, short, complete, summary or summaries",
            "extended",
            one_of("extended", "short", "complete", "summary", "summaries"),
        ),
    ),
)
def dci(path: Path, *, text: str) -> Draft:
    """Read the folder `densely_captioned_images`: a JSON file for each photo, `splits.json`, and `photos/`."""
    folder = next((each for each in (path, path / "densely_captioned_images") if _has_dci(each)), None)
    if folder is None:
        missing = ["no folder annotations/ or complete/ with a JSON file for each photo"]
        raise dci.lacks(path, *missing, *([] if (path / "splits.json").is_file() else ["no splits.json"]))
    source = next(folder / name for name in _DCI_FOLDERS if (folder / name).is_dir())
    split_of, notes = _dci_splits(folder)
    draft = Draft("DCI", folder, f"Densely Captioned Images {folder.absolute().name}/, {text}", notes=notes)
    without, masks = 0, []
    for file in sorted(source.glob("*.json")):
        try:
            entry = read_json(file)
        except VisirError as fault:
            draft.fault(str(fault.message))
            continue
        lacking = [key for key in ("image", "short_caption") if not isinstance(entry, dict) or not entry.get(key)]
        if lacking:
            draft.fault(f"{file.name}: no {', '.join(lacking)}")
            continue
        texts = _dci_texts(entry, text)
        if not texts:
            without += 1
            continue
        draft.add_image(file.stem, entry["image"], split_of.pop(file.name, "unlisted" if split_of else ""))
        masks.append(len(entry.get("mask_data") or ()))
        for number, caption in enumerate(texts):
            draft.add_caption(f"{file.stem}#{number}", caption, file.stem)
    if without and not draft.ids:
        raise CollectionError(
            f"{source}: no photo has {text}.",
            hint="the summaries are in the folder complete/ of dci.tar.gz",
            code="no-photo",
        )
    if without:
        draft.notes.append(f"{counted(without, 'photos')} without {text} left out")
    draft.facts = pa.table({"image_id": draft.ids, "masks": masks}) if masks else None
    compare_counts(draft, {"images": 7_805}, {"images": len(draft.ids)})
    return draft


def _dci_splits(folder: Path) -> tuple[dict[str, str], list[str]]:
    """The split of each annotation file, and what to note."""
    if not (folder / "splits.json").is_file():
        return {}, ["no splits.json: no splits"]
    content = read_json(folder / "splits.json")
    if not isinstance(content, dict) or not all(isinstance(names, list) for names in content.values()):
        raise CollectionError(f"{folder / 'splits.json'}: expected {{split: [annotation files]}}.")
    return {str(name): SPLITS.get(str(split), str(split)) for split, names in content.items() for name in names}, []


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
