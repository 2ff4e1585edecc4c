"""`visir encode`: a collection through a model, kept for every later verb."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, TypeVar

from visir.cli import output
from visir.cli.options import option
from visir.cli.verbs import examples
from visir.display import counted, named
from visir.progress import pace

if TYPE_CHECKING:
    from visir.encoders import Encoder, Encoding
    from visir.encoders.encoding import ForwardOptions
    from visir.encoders.parts_folder import Parts
    from visir.encoders.shards import Shard, ShardEncoding
    from visir.records import Embeddings, EncoderCard, Items, Modality, MultiVectorEmbeddings, Role

Choice = TypeVar("Choice", bound=str)


# What was encoded, in lines for the terminal.

_BROKEN_SHOWN = 10
_MANY = {"image": 2_000, "text": 20_000}
"""From so many on, a compiled network saves more time than its compilation takes, several times over."""


def advise(encoder: Encoder, items: Items, role: Role) -> None:
    """Before long work with PyTorch on the CPU: say what is faster."""
    from visir.encoders.devices import has_bfloat16_units
    from visir.encoders.encoding import is_stored

    many = len(items) >= _MANY.get(items.modality, len(items) + 1)
    if many and encoder.root_encoder(items.modality).is_slow_here and not is_stored(encoder, items, role):
        faster = "is about 1.2 times as fast, with --dtype int8 twice."
        if has_bfloat16_units():
            faster = (
                "with --dtype bfloat16 is three to four times as fast on this processor; vectors differ (1 - cosine) "
                "by up to 1e-4, which moves the nearest neighbour of up to 2 %."
            )
        output.note(f"{len(items):,} {items.modality}s with PyTorch on the CPU: --device openvino {faster}")


def remark_on_tars(source: str) -> None:
    """Say what of the tars of a collection was not read."""
    from visir.collections.tars import tar_notes_in

    for remark in tar_notes_in(source):
        output.note(f"  {remark}")


def print_encoding(title: str, encoding: Encoding) -> None:
    """Print what was encoded, what was set aside, and where the vectors are."""
    from visir.records import MultiVectorEmbeddings

    vectors, each, dtype = encoding.embeddings, "", ""
    if isinstance(vectors, MultiVectorEmbeddings):
        counts, dtype = vectors.counts, f" {vectors.vectors.dtype}"
        each = f" × {counts.mean():,.1f}" if counts.min() < counts.max() else f" × {counts[0]:,}"
    usable = f"{len(vectors):,}{each} × {vectors.dimension:,}{dtype}"
    usable += f" usable, {len(encoding.broken):,} broken" if encoding.broken else ""
    done = _computed(encoding) if encoding.computed else "found in the store" if encoding.folder else "imported"
    output.line(f"{title}: {usable}, {done}")
    print_set_aside(encoding.broken)
    if encoding.folder:
        output.line(f"  kept in {encoding.folder}")


def _computed(result: Encoding | ShardEncoding) -> str:
    """How many were encoded, and how fast."""
    rate = result.computed / result.seconds if result.seconds else 0.0
    done = "read" if result.broken else "encoded"
    resumed = f", {result.resumed:,} taken over from an interrupted run" if result.resumed else ""
    return f"{result.computed:,} {done} in {result.seconds:,.1f} s ({rate:,.0f}/s){resumed}"


def print_set_aside(broken: Mapping[str, str], lacking: str = "they are in no gallery") -> None:
    """Print which pictures `--skip-broken` has set aside."""
    for name, reason in list(broken.items())[:_BROKEN_SHOWN]:
        output.line(f"  set aside: {named(name, reason)}")
    if broken:
        output.line(f"  {len(broken):,} broken in all; {lacking}")


# `visir encode --parts`: files of pictures, of any number and size, one part for each.

_SHOWN = 20
_WAITED = 5.0
"""So many seconds beside encoding are worth a word."""


def encode_into_parts(
    encoder: Encoder, source: str, place: str, options: ForwardOptions, *, key_ids: bool, replace: bool
) -> None:
    """Encode what others have not, and print what was done."""
    from visir.collections.tars import END_REMEDY, LINKS_REMEDY
    from visir.encoders.parts import encode_parts

    result = encode_parts(
        encoder,
        source,
        place,
        batch_size=options.batch_size,
        workers=options.workers,
        skip_broken=options.skip_broken,
        ids="key" if key_ids else None,
        replace=replace,
    )
    rate = result.images / result.encoding_seconds if result.encoding_seconds else 0.0
    waited = result.seconds - result.encoding_seconds
    output.line(
        f"{place}: {counted(result.files, 'files')} with {counted(result.images, 'images')} encoded here "
        f"in {result.encoding_seconds:,.1f} s ({rate:,.0f}/s)"
        + (f"; {waited:,.0f} s more for listing files and waiting for other processes" if waited >= _WAITED else "")
    )
    again = "--replace --skip-broken tries them again"
    for count, title, about in (
        (
            result.broken,
            "broken pictures",
            f"set aside; their parts list them; {again}",
        ),
        (result.passed_over, "pictures", "passed over whose sample has another, which comes first"),
        (result.links, "links", f"in tars passed over ({LINKS_REMEDY})"),
    ):
        if count:
            output.line(f"  {counted(count, title)} {about}")
    if result.going_on:
        tars = counted(len(result.going_on), "tars")
        output.line(f"  {tars} with more behind the mark of the end, not read: {result.going_on[0]} ({END_REMEDY})")
    print_status(result.parts)


def print_status(parts: Parts) -> None:
    """Print how far parts are; then raise over those that were cut, which count as not finished."""
    status, _, cut = parts.survey()
    output.facts(parts=parts.place, **output.plain(status))
    speed = status.images_per_second
    rate = "" if speed is None else f"; images: {pace(speed)} in the time of encoding, all processes"
    broken = f", {counted(status.broken, 'broken pictures')} set aside" if status.broken else ""
    if status.broken is None:
        known = f"at least {counted(status.broken_at_least, 'broken pictures')} set aside"
        broken = f", {known} (not counted in parts of an earlier version: Parts(place).broken() lists them all)"
    given_up = f", {len(status.given_up):,} given up" if status.given_up else ""
    files = counted(status.files, "files", "are")
    output.line(f"{parts.place}: {status.finished:,} of {files} finished{broken}{given_up}{rate}")
    for title in ("running", "expired", "failed", "given up"):
        about: Mapping[str, str] = getattr(status, title.replace(" ", "_"))
        for name in list(about)[:_SHOWN]:
            output.line(f"  {title}: {named(name, about[name])}")
        if len(about) > _SHOWN:
            output.line(f"  {title}: … and {len(about) - _SHOWN:,} more")
    parts.check_whole(cut)


# `visir encode` in one of several processes: its part, and the whole when this was the last part.


def encode_part(
    encoder: Encoder,
    items: Items,
    role: Role,
    shard: Shard,
    place: str | None,
    prints: bool,
    options: ForwardOptions,
) -> None:
    """Encode one shard, and print a line about it.

    Where shards lie in the store, the process that finishes last joins them. Where they lie in a `place` that was
    named, nobody does: that may be far away from where the whole is needed, or larger than one machine.
    """
    from visir.encoders import encode_detailed
    from visir.encoders.shards import encode_shard, join_shards
    from visir.threads import launched_here, usable_cores

    side = items.modality
    result = encode_shard(
        encoder,
        items,
        shard,
        role,
        place=place,
        batch_size=options.batch_size,
        workers=options.workers or max(1, usable_cores() // launched_here()[1]),
        skip_broken=options.skip_broken,
    )
    line = f"{side}s, shard {shard}: "
    if result.joined:
        line += "joined with the others already"
    else:
        broken = f", {len(result.broken):,} of them broken" if result.broken else ""
        done = _computed(result) if result.computed else "finished already" if result.rows else "nothing to encode"
        line += f"{len(result.rows):,} of {result.total:,}{broken}, {done}"
        line += f"; {len(result.finished)} of {shard.count} shards are finished"
    output.line(line)
    for name, reason in list(result.broken.items())[:_BROKEN_SHOWN]:
        output.line(f"  set aside: {named(name, reason)}")
    if not result.complete:
        return
    if place is not None and not result.joined:
        if result.computed or prints:
            join = f"visir encode … --merge --shards {place}"
            output.line(f"all {shard.count} {side} shards are in {place}; join them: {join}")
    elif prints or not result.joined:
        join_shards(encoder, items, role)
        print_encoding(f"{side}s", encode_detailed(encoder, items, role, skip_broken=options.skip_broken))


@examples(
    "visir encode photos/ --model openai/clip-vit-base-patch32",
    "visir encode scenes:100 --model pixels --out vectors",
    "visir encode 's3://bucket/laion/*.tar' --model openai/clip-vit-base-patch32 --parts s3://bucket/parts",
    "visir encode --parts s3://bucket/parts --status",
)
def encode(
    collection: str | None = None,
    model: str | None = None,
    split: str | None = None,
    modality: str | None = None,
    images: list[str] | None = None,
    out: str | None = None,
    replace: bool = False,
    skip_broken: bool = False,
    batch_size: int | None = None,
    workers: int | None = None,
    device: str | None = None,
    dtype: str = "float32",
    revision: str | None = None,
    shard: str | None = None,
    shards: str | None = None,
    merge: bool = False,
    parts: Annotated[str | None, option(metavar="PLACE")] = None,
    key_ids: bool = False,
    status: bool = False,
    give_up: Annotated[list[str] | None, option(metavar="FILE")] = None,
    role: str | None = None,
) -> None:
    """Turn images and captions into vectors, once.

    Encode the images and captions of a collection, once.

    The vectors are kept by content, so evaluate, search and train find them and encode nothing again. An interrupted
    encode goes on where it stopped when the same command is run again.

    Several processes: torchrun --nproc-per-node 4 -m visir encode … Each encodes its part, the last one joins them.

    More than one machine can open: --parts PLACE, in as many processes as there are, each with the same command.

    Args:
        modality: image, text or both. Default: what the model encodes, and there is.
        out: Where to write: a folder or URL for the vectors: NPY, Parquet, JSON.
        revision: A commit or tag of a model on the hub.
        shard: Encode one part only: 3/16. Default: the launcher's (torchrun).
        shards: The folder or URL where shards lie. Default: the store.
        merge: Join the finished shards; encode nothing.
        parts: A folder or URL with a part for each tar, zip or Parquet file of pictures; the source is streamed.
        key_ids: In parts, ids are the keys of pictures alone, without the file's name.
        status: How far the parts are; nothing is touched.
        give_up: Leave a listed file out of the parts: it is lost, or cannot be read. Encode nothing. Repeatable.
        role: query or document, for models that embed the two in different ways. Default: both.
    """
    from visir.collections import open_collection
    from visir.encoders import encode_detailed, load
    from visir.encoders.encoding import ForwardOptions
    from visir.encoders.forms import as_exportable
    from visir.encoders.models.vector_files import check_new_place, export
    from visir.encoders.shards import Shard, join_shards
    from visir.errors import VisirError

    if parts is None and (key_ids or status or give_up):
        raise VisirError("--key-ids, --status and --give-up are about parts.", hint="name their folder: --parts PLACE")
    options = ForwardOptions(batch_size, workers, skip_broken)
    if parts is not None:
        from visir.encoders.parts_folder import Parts

        others: dict[str, object] = {"--split": split, "--modality": None if modality == "image" else modality}
        others |= {"--images": images, "--out": out, "--shard": shard, "--shards": shards}
        others |= {"--merge": merge or None, "--role": role}
        faults = [f"{name} does not go with --parts" for name, value in others.items() if value is not None]
        _check(faults, "parts are made of all pictures of the files, and nothing else")
        if give_up:
            Parts(parts).give_up(*give_up)
        if give_up or status:
            print_status(Parts(parts))
            return
        collection, model = _both(collection, model)
        encoder = load(model, device=device, dtype=dtype, revision=revision)
        encode_into_parts(encoder, collection, parts, options, key_ids=key_ids, replace=replace)
        return
    collection, model = _both(collection, model)
    chosen, roles = _chosen("modality", modality, _SIDES, "both"), _chosen("role", role, _ROLES)
    part = Shard.of(shard) if shard is not None else None if merge else Shard.launched()
    faults = []
    if merge and part is not None:
        faults.append("--shard and --merge: shards are joined when all are made")
    if shards is not None and part is None and not merge:
        faults.append("--shards without --shard, --merge or a launcher: there is nothing to divide")
    if out is not None and part is not None:
        faults.append("--out for a part: the same command without a launcher writes the whole, encoding nothing again")
    _check(faults, "visir encode --help")
    if out is not None:
        check_new_place(out, replace=replace)
    opened = open_collection(collection, images=images, split=split)
    encoder = load(model, device=device, dtype=dtype, revision=revision)
    encodes = tuple(side for side in _SIDES if side in encoder.modalities)
    sides = chosen or tuple(side for side in encodes if len(opened.items(side))) or encodes
    work = [
        (side, role)
        for side in sides
        for role in (roles or _ROLES if encoder.root_encoder(side).distinguishes_roles else ("document",))
    ]
    if out is not None and len(work) > len(sides):
        raise VisirError(
            f"{encoder.card.name} embeds queries and documents in different ways; a folder holds one of the two.",
            hint="say which: --role query, or --role document",
        )
    prints = part is None or shard is not None or part.number == 1
    if prints:
        images_here, captions_here = opened.images.num_rows, opened.captions.num_rows
        of_split = f", split {split}" if split else ""
        output.line(f"{opened.name}: {counted(images_here, 'images')}, {counted(captions_here, 'captions')}{of_split}")
        remark_on_tars(opened.source)
    if part is not None:
        for side, side_role in work:
            encode_part(encoder, opened.items(side), side_role, part, shards, prints, options)
        return
    encoded: dict[Modality, Embeddings | MultiVectorEmbeddings] = {}
    for side, side_role in work:
        items = opened.items(side)
        if merge:
            join_shards(encoder, items, side_role, place=shards)
        advise(encoder, items, side_role)
        encoding = encode_detailed(
            encoder, items, side_role, batch_size=batch_size, workers=workers, skip_broken=skip_broken
        )
        distinguished = encoder.root_encoder(side).distinguishes_roles
        print_encoding(f"{side}s as {_ROLES[side_role]}" if distinguished else f"{side}s", encoding)
        encoded[side] = as_exportable(encoding.embeddings)
        sides_done = output.current().facts.setdefault("vectors", [])
        sides_done.append(
            {
                "modality": side,
                "role": side_role,
                "count": len(encoding.embeddings),
                "dimension": encoding.embeddings.dimension,
                "form": encoder.form,
                "encoded": encoding.computed,
                "seconds": encoding.seconds,
                "broken": dict(encoding.broken),
                "folder": encoding.folder,
            }
        )
    output.facts(encoder=encoder.card.to_dict(), out=out)
    _print_card(encoder.card)
    if out is not None:
        export(out, encoded, replace=replace)
        output.line(f"written: {out} (load it again by this name)")


_SIDES: tuple[Modality, Modality] = ("image", "text")
_ROLES: dict[Role, str] = {"query": "queries", "document": "documents"}


def _both(collection: str | None, model: str | None) -> tuple[str, str]:
    """The collection and the model, which only a look at parts can do without."""
    from visir.errors import ConfigurationError, raise_faults

    named = (("COLLECTION: what is encoded", collection), ("--model: by what it is encoded", model))
    faults = [name for name, given in named if given is None]
    raise_faults(ConfigurationError, "encode: not given", faults, hint="visir encode COLLECTION --model MODEL")
    assert collection is not None and model is not None, "both were checked"
    return collection, model


def _chosen(option: str, value: str | None, choices: Iterable[Choice], every: str = "") -> tuple[Choice, ...]:
    """What an option names; nothing without it, and all by the word for it."""
    from visir.errors import VisirError, nearest

    named = tuple(choice for choice in choices if value == choice or (every and value == every))
    if value is not None and not named:
        known: list[str] = [*choices, *([every] if every else [])]
        raise VisirError(f"unknown {option} {value!r}", hint=nearest(value, known))
    return named


def _check(faults: list[str], hint: str) -> None:
    from visir.errors import ConfigurationError, raise_faults

    raise_faults(ConfigurationError, "encode", faults, hint=hint)


def _print_card(card: EncoderCard) -> None:
    from rich.table import Table

    table = Table("encoder", card.name, show_edge=False, title_justify="left")
    for name, value in card.to_dict().items():
        if name != "name" and value not in (None, {}):
            shown = ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else str(value)
            table.add_row(name.replace("_", " "), shown)
    output.console_of_verb().print(table, markup=False)
