"""Flickr8k's human judgements: three experts per pair (1–4), and the crowd's yes or no."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from visir.collections.judgements.judged import Judged, Judging
from visir.collections.readers.sniffing import head, plain_name
from visir.collections.sources import JudgementFormat, Option
from visir.errors import CollectionError, raise_faults
from visir.files import find_file, read_lines
from visir.records import Collection

_FILES = ("ExpertAnnotations.txt", "CrowdFlowerAnnotations.txt")
LOWEST = 1.0
"""An expert's lowest score: the caption does not describe the image at all."""


def read(
    path: Path,
    collection: Collection,
    *,
    expert_threshold: float = 3.0,
    crowd_threshold: float = 0.5,
    tokens: str | Path | None = None,
) -> Judged:
    """Read `ExpertAnnotations.txt` and `CrowdFlowerAnnotations.txt` (their folder, or one of them)."""
    # Four relevances; in all of them grade 0 is judged and not relevant:
    # - "experts": the mean of the three scores, minus 1. The experts' scale is 1 (does not describe the image at all)
    #   to 4 (describes it), so grades run from 0 to 3: gains for nDCG.
    # - "experts-relevant": grade 1 where that mean is at least `expert_threshold`; 3 is "almost describes the image
    #   with minor mistakes".
    # - "crowd": the share of yes, 0 to 1.
    # - "crowd-relevant": grade 1 where that share is over `crowd_threshold`: a majority.
    # A *set replaces* the links. Most judged pairs were proposed by retrieval systems; few are links (158 of the
    # experts' 5,822 pairs).
    # Captions are called `name.jpg#n`, as in the token file. In a collection with other caption ids (Karpathy's JSON)
    # they are found by text through `tokens` (default: `Flickr8k.token.txt` beside); where that is absent, caption n of
    # an image is its n-th in the collection.
    folder = path.parent if path.is_file() else path
    files = [path] if path.is_file() else [file for file in sorted(path.iterdir()) if plain_name(file) in _FILES]
    if not files:
        raise CollectionError(f"{path}: neither {' nor '.join(_FILES)} in it.")
    judging = Judging(collection, f"Flickr8k ({', '.join(file.name for file in files)})")
    translate = _captions(collection, judging, folder, tokens)
    for file in files:
        experts = plain_name(file) == _FILES[0]
        for image, key, columns in _rows(file):
            caption = translate.get(key, key)
            if experts:
                mean = sum(columns) / len(columns)
                judging.add("experts", "both", caption, image, mean - LOWEST)
                judging.add("experts-relevant", "both", caption, image, float(mean >= expert_threshold))
            else:
                judging.add("crowd", "both", caption, image, columns[0])
                judging.add("crowd-relevant", "both", caption, image, float(columns[0] > crowd_threshold))
    return judging.done(hint="it needs Flickr8k, with file names as image ids (flickr_tokens or karpathy)")


def _captions(collection: Collection, judging: Judging, folder: Path, tokens: str | Path | None) -> dict[str, str]:
    """From `name.jpg#n` to the collection's caption id."""
    rows = collection.captions.to_pylist()
    if any(f"{row['image_id']}#0" == row["id"] for row in rows[:5]):
        return {}
    file = find_file(folder / "Flickr8k.token.txt") if tokens is None else Path(tokens)
    if tokens is not None and not Path(tokens).is_file():
        raise CollectionError(f"{tokens}: no such token file.")
    translate: dict[str, str] = {}
    if file is None:
        numbers: dict[str, int] = {}
        for row in rows:
            number = numbers[row["image_id"]] = numbers.get(row["image_id"], -1) + 1
            translate[f"{row['image_id']}#{number}"] = row["id"]
        judging.source += ", captions matched by position"
        return translate
    # Texts may repeat within an image; each is used once, in order.
    ids: dict[tuple[str, str], list[str]] = {}
    for row in reversed(rows):
        ids.setdefault((row["image_id"], _words(row["text"])), []).append(row["id"])
    for line in read_lines(file):
        key, _, text = line.partition("\t")
        candidates = ids.get((key.rpartition("#")[0], _words(text)))
        if candidates:
            translate[key] = candidates.pop()
    judging.source += f", captions matched by the texts in {file.name}"
    return translate


def _words(text: str) -> str:
    return " ".join(text.split())


def _rows(file: Path) -> Iterator[tuple[str, str, list[float]]]:
    highest = 4.0 if plain_name(file) == _FILES[0] else None
    faults: list[str] = []
    for number, line in enumerate(read_lines(file), start=1):
        parts = line.split()
        try:
            image, caption = parts[0], parts[1]
            values = [float(part) for part in parts[2:]]
            if len(values) != 3 or "#" not in caption:
                raise ValueError
            if highest is not None and not all(LOWEST <= value <= highest for value in values):
                raise ValueError
            if highest is None and not 0 <= values[0] <= 1:
                raise ValueError
        except (ValueError, IndexError):
            faults.append(f"line {number}: expected image, caption and three numbers; found {line[:80]!r}")
            continue
        yield image, caption, values
    raise_faults(CollectionError, str(file), faults)


def _sniff(path: Path) -> bool:
    if path.is_dir():
        return any(plain_name(file) in _FILES for file in path.iterdir())
    return plain_name(path) in _FILES and b"#" in head(path)[:400]


FORMAT = JudgementFormat(
    name="flickr8k_judgements",
    title="Flickr8k experts and crowd",
    layout="ExpertAnnotations.txt: image, caption, three scores; CrowdFlowerAnnotations.txt: image, caption, share of "
    "yes, number of yes, number of no",
    reference="Hodosh, Young, Hockenmaier, Framing Image Description as a Ranking Task (JAIR 47, 2013)",
    sniff=_sniff,
    options=(
        Option("expert_threshold", "mean expert score (1 to 4) from which a pair is relevant", 3.0, float),
        Option("crowd_threshold", "share of yes above which a pair is relevant", 0.5, float),
        Option("tokens", "the token file that names the captions (default: beside)"),
    ),
    read=read,
    sets="experts, experts-relevant, crowd, crowd-relevant",
)
