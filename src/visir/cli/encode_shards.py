"""`visir encode` in one of several processes: its part, and the whole when this was the last part."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from visir.encoders import Encoder
    from visir.encoders.shard_folder import Shard
    from visir.encoders.shards import ShardEncoding
    from visir.records import Collection, Modality


def encode_part(
    encoder: Encoder,
    collection: Collection,
    side: Modality,
    shard: Shard,
    place: str | None,
    speaks: bool,
    batch_size: int | None,
    workers: int | None,
    skip_broken: bool,
) -> None:
    """Encode one shard and say so in a line.

    Where shards lie in the store, the process that finishes last joins them. Where they lie in a `place` of one's own,
    nobody does: that may be far away from where the whole is wanted, or larger than one machine.
    """
    from visir.cli.encoded import report
    from visir.encoders import encode_collection
    from visir.encoders.shards import encode_shard, join_shards
    from visir.launched import launched_here
    from visir.threads import usable_cores

    if workers is None:
        workers = max(1, usable_cores() // launched_here()[1])
    done = encode_shard(
        encoder,
        collection,
        side,
        shard,
        place=place,
        batch_size=batch_size,
        workers=workers,
        skip_broken=skip_broken,
    )
    typer.echo(_line(side, done))
    for name, reason in list(done.broken.items())[:10]:
        typer.echo(f"  set aside: {name}: {reason}")
    if not done.complete:
        return
    if place is not None and not done.joined:
        if done.computed or speaks:
            typer.echo(f"all {shard.count} {side} shards are in {place}; join them: visir encode … --merge "
                       f"--shards {place}")  # fmt: skip
        return
    if done.joined and not speaks:
        return
    join_shards(encoder, collection, side)
    report(side, encode_collection(encoder, collection, side, skip_broken=skip_broken))


def _line(side: Modality, done: ShardEncoding) -> str:
    if done.joined:
        return f"{side}s, shard {done.shard}: joined with the others already"
    what = f"{side}s, shard {done.shard}: {len(done.rows):,} of {done.total:,}"
    if done.computed:
        rate = done.computed / done.seconds if done.seconds else 0.0
        what += f", {done.computed:,} encoded in {done.seconds:,.1f} s ({rate:,.0f}/s)"
        if done.resumed:
            what += f", {done.resumed:,} taken over from an interrupted run"
    else:
        what += ", finished already" if done.rows else ", nothing to encode"
    return f"{what}; {len(done.finished)} of {done.shard.count} shards are finished"
