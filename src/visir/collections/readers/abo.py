"""Amazon Berkeley Objects (ABO): product listings in many languages, each with its main picture."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pyarrow as pa

from visir.collections.draft import Draft
from visir.collections.readers.abo_listings import TEXTS, ListingCounts, listing_files, read_listings
from visir.collections.readers.names import compare_counts, whole
from visir.collections.readers.rows import read_rows
from visir.collections.sources import Format, Option, one_of
from visir.errors import CollectionError, nearest

PUBLISHED = {"listings": 147_702, "images in images.csv": 398_212}
FACTS = pa.schema(
    [
        ("image_id", pa.string()),
        ("item_id", pa.string()),
        ("product_type", pa.string()),
        ("domain_name", pa.string()),
        ("listings", pa.int32()),
        ("original_height", pa.int32()),
        ("original_width", pa.int32()),
    ]
)
CAPTION_FACTS = pa.schema(
    [(name, pa.string()) for name in ("caption_id", "item_id", "domain_name", "field", "language")]
)
UNLISTED = "unlisted"
"""The split of images that the benchmark's file of splits does not name."""
_BUCKET = "https://amazon-berkeley-objects.s3.amazonaws.com"


def read(
    path: Path, *, text: str = "item_name", language: str = "en_US,en", splits: str = "seeded", seed: int = 0
) -> Draft:
    """Read the folder with `listings/metadata/listings_*.json.gz` and `images/metadata/images.csv.gz`."""
    # - Images are the listings' main pictures, by `main_image_id`; their files are looked for under `images/small/` and
    #   `images/original/`, or in `abo-images-small.tar` beside them. Many listings are one product in several shops
    #   with one picture: that picture is one image with the captions of all of them, each different text once. As
    #   several images, searches for one of them would count right answers as wrong. An item's other pictures are not
    #   read, so a relevance "product", as Fashion200k has, would be the links but for items that shops show
    #   differently.
    # - Facts: `item_id`, `product_type`, `domain_name` of the first listing, `listings` (how many show the picture),
    #   and `original_height`, `original_width` in pixels: those of images.csv are the original's, not the small
    #   picture's. Facts of a caption: `item_id`, `domain_name`, `field`, `language`.
    # The whole has 147,702 listings and 398,212 pictures; the source of a copy with other counts says so.
    # Thesis section 2.5.1 takes one picture per listing and "the associated product description", without saying which
    # field or language, and "the splits provided by the dataset authors"; the only one of catalogue pictures that they
    # publish is the multi-view benchmark's. Its recalls of X-VLM in table 2.2 fit 5,000 images, which its authors' log
    # prints too; those of CLIP do not: the two models searched different galleries.
    metadata, folder = abo_folders(path)
    fields = text.split(",")
    for field in fields:
        if field not in TEXTS:
            raise CollectionError(f"abo: unknown text {field!r}", hint=nearest(field, TEXTS), code="unknown-text")
    draft = Draft("ABO", folder.absolute(), f"Amazon Berkeley Objects {folder.absolute().name}/, {text} in {language}")
    counts = ListingCounts()
    images = read_listings(draft, metadata, fields, language.split(","), counts)
    files = abo_images(folder)
    split_of = _benchmark(folder) if splits == "mvr" else {}
    caption_facts: list[dict[str, Any]] = []
    unknown = 0
    for identifier, image in images.items():
        row = files.get(identifier)
        unknown += row is None
        split = {"seeded": _share(image.fact["item_id"], seed), "none": ""}.get(splits)
        if split is None:
            split = split_of.get(row["path"], UNLISTED) if row else UNLISTED
        draft.add_image(identifier, f"small/{row['path']}" if row else None, split)
        image.fact |= {f"original_{side}": int(row[side]) if row else None for side in ("height", "width")}
        for number, (caption, fact) in enumerate(image.texts.items()):
            draft.add_caption(f"{identifier}#{number}", caption, identifier)
            caption_facts.append({"caption_id": f"{identifier}#{number}"} | fact)
    draft.facts = pa.Table.from_pylist(
        [{"image_id": identifier} | image.fact for identifier, image in images.items()], FACTS
    )
    draft.caption_facts = pa.Table.from_pylist(caption_facts, CAPTION_FACTS)
    _add_notes(draft, counts, unknown, splits, seed)
    compare_counts(draft, PUBLISHED, {"listings": counts.listings, "images in images.csv": len(files)})
    return draft


def abo_folders(path: Path) -> tuple[Path, Path]:
    """(folder of the listings, folder of everything)."""
    metadata = next((folder for folder in _places(path) if listing_files(folder)), None)
    if metadata is None:
        packed = path / "abo-listings.tar"
        hint = (
            f"unpack it: tar -xf {packed}" if packed.is_file() else f"unpack {_BUCKET}/archives/abo-listings.tar here"
        )
        raise CollectionError(
            f"{path}: no listings/metadata/listings_*.json.gz.", hint=hint, code="no-listings-metadata-listings"
        )
    is_nested = metadata.absolute().parts[-2:] == ("listings", "metadata")
    return metadata, metadata.absolute().parents[1] if is_nested else path


def abo_images(folder: Path) -> dict[str, dict[str, Any]]:
    """The rows of images.csv by image id."""
    file = folder / "images" / "metadata" / "images.csv"
    table = next((candidate for candidate in (file.with_name("images.csv.gz"), file) if candidate.is_file()), None)
    if table is None:
        raise CollectionError(
            f"{folder}: no images/metadata/images.csv.gz, which says where the pictures are.",
            hint=f"unpack {_BUCKET}/archives/abo-images-small.tar here, or get {_BUCKET}/images/metadata/images.csv.gz",
            code="no-images-metadata-images",
        )
    rows: dict[str, dict[str, Any]] = {}
    for place, row in read_rows(table):
        if not {"image_id", "height", "width", "path"} <= row.keys():
            raise CollectionError(
                f"{table}: expected columns image_id, height, width, path; there are {', '.join(row)}.",
                code="expected-columns-image-id",
            )
        if not (row["height"].isdecimal() and row["width"].isdecimal()):
            raise CollectionError(
                f"{table}, {place}: height and width must be whole numbers.", code="height-width-whole-numbers"
            )
        rows[row["image_id"]] = row
    return rows


def _benchmark(folder: Path) -> dict[str, str]:
    """The split of each catalogue picture's path in the multi-view retrieval benchmark."""
    file = next(
        (
            candidate
            for candidate in (folder / "benchmarks" / "abo-mvr.csv.xz", folder / "abo-mvr.csv.xz")
            if candidate.is_file()
        ),
        None,
    )
    if file is None:
        raise CollectionError(
            f"{folder}: no benchmarks/abo-mvr.csv.xz, for splits=mvr.",
            hint=f"get {_BUCKET}/benchmarks/abo-mvr.csv.xz",
            code="no-benchmarks-abo-mvr-csv",
        )
    split_of: dict[str, str] = {}
    for _, row in read_rows(file):
        if not {"path", "split_set"} <= row.keys():
            raise CollectionError(
                f"{file}: expected columns path and split_set; there are {', '.join(row)}.",
                code="expected-columns-path-split",
            )
        split_of[row["path"]] = row["split_set"].partition("-")[0]
    return split_of


def _share(item: str, seed: int) -> str:
    """The seeded split of an item: tenths of a hash's range, 0 to 7 train, 8 val, 9 test."""
    digest = hashlib.blake2b(item.encode(), key=f"visir abo {seed}".encode(), digest_size=8).digest()
    tenth = int.from_bytes(digest, "little") * 10 >> 64
    return "test" if tenth == 9 else "val" if tenth == 8 else "train"


def _add_notes(draft: Draft, counts: ListingCounts, unlisted_images: int, splits: str, seed: int) -> None:
    if splits == "seeded":
        draft.notes.append(f"split by visir with seed {seed}")
    if counts.no_image:
        draft.notes.append(f"{counts.no_image:,} listings without a main image left out")
    if counts.no_text:
        draft.notes.append(f"{counts.no_text:,} listings without such a text left out")
    if unlisted_images:
        draft.notes.append(f"{unlisted_images:,} main images are not in images.csv")


def is_abo(path: Path) -> bool:
    """Whether a folder holds listings where ABO has them."""
    return any(map(listing_files, _places(path)))


def _places(path: Path) -> tuple[Path, ...]:
    """Where the listings may lie."""
    return path / "listings" / "metadata", path / "metadata", path


FORMAT = Format(
    name="abo",
    title="Amazon Berkeley Objects (ABO)",
    layout="listings/metadata/listings_*.json.gz: {item_id, item_name: [{language_tag, value}], product_type, "
    "main_image_id, …} per line; images/metadata/images.csv.gz: image_id,height,width,path; images/small/PATH",
    reference="Collins et al., ABO: Dataset and Benchmarks for Real-World 3D Object Understanding (CVPR 2022)",
    sniff=is_abo,
    options=(
        Option(
            "text", "the field of the captions: item_name, product_description, bullet_point, or several", "item_name"
        ),
        Option("language", "languages in order of preference: en_US, en (any English), …, any", "en_US,en"),
        Option(
            "splits",
            "'seeded': 80/10/10 by item; 'mvr': those of benchmarks/abo-mvr.csv.xz; 'none'",
            "seeded",
            one_of("seeded", "mvr", "none"),
        ),
        Option("seed", "of the seeded split", 0, whole(0)),
    ),
    read=read,
)
