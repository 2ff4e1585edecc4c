"""`visir encode` in one of several processes: its part, and the whole when this was the last part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visir.cli import output
from visir.display import named

if TYPE_CHECKING:
    from visir.encoders import Encoder
    from visir.encoders.compute import ForwardOptions
    from visir.encoders.shard_folder import Shard
    from visir.encoders.shards import ShardEncoding
    from visir.records import Items, Modality, Role


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
    from visir.cli.encoding_report import print_encoding
    from visir.encoders import encode_detailed
    from visir.encoders.shards import encode_shard, join_shards
    from visir.launched import launched_here
    from visir.threads import usable_cores

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
    output.line(_line(side, result))
    for name, reason in list(result.broken.items())[:10]:
        output.line(f"  set aside: {named(name, reason)}")
    if not result.complete:
        return
    if place is not None and not result.joined:
        if result.computed or prints:
            output.line(f"all {shard.count} {side} shards are in {place}; join them: visir encode … --merge "
                       f"--shards {place}")  # fmt: skip
        return
    if result.joined and not prints:
        return
    join_shards(encoder, items, role)
    print_encoding(f"{side}s", encode_detailed(encoder, items, role, skip_broken=options.skip_broken))


def _line(side: Modality, result: ShardEncoding) -> str:
    if result.joined:
        return f"{side}s, shard {result.shard}: joined with the others already"
    line = f"{side}s, shard {result.shard}: {len(result.rows):,} of {result.total:,}"
    if result.broken:
        line += f", {len(result.broken):,} of them broken"
    if result.computed:
        rate = result.computed / result.seconds if result.seconds else 0.0
        line += (
            f", {result.computed:,} {'read' if result.broken else 'encoded'} in {result.seconds:,.1f} s ({rate:,.0f}/s)"
        )
        if result.resumed:
            line += f", {result.resumed:,} taken over from an interrupted run"
    else:
        line += ", finished already" if result.rows else ", nothing to encode"
    return f"{line}; {len(result.finished)} of {result.shard.count} shards are finished"
