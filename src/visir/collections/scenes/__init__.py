"""Generated scenes: pictures made of known facts, five captions each, and the truth about who tells what.

So that everything runs with no download, and so that one can later ask a trained representation which facts it still
holds (thesis chapter 4, with known truth). `scenes(1000)` is a collection like any other; its images are drawn when
looked at.

The road through the files: `facts` (the world, how scenes are drawn from it, and what is true of them) → `draw` (the
painter of the strokes in `pictures.toml`) → `render` (the picture); `languages` (one grammar, and a table for each
language) → `captions` (other lengths, roles and edits); `generate` (the collection), `choice` and `composed` (tasks).
"""

from visir.collections.scenes.composed import ComposedQuery, compose, composed_scenes
from visir.collections.scenes.facts import (
    FACTS,
    Claim,
    Fact,
    Role,
    Scene,
    change_one,
    claims_of,
    clearly_differ,
    fact_names,
    holds,
    sample_scene,
)
from visir.collections.scenes.generate import RELEVANCE, SCHEME, location, read_location, render_location, scenes
from visir.collections.scenes.languages import KINDS, TELLS, Caption, describe, ways_to_say
from visir.collections.scenes.render import render

__all__ = [
    "FACTS",
    "KINDS",
    "RELEVANCE",
    "SCHEME",
    "TELLS",
    "Caption",
    "Claim",
    "ComposedQuery",
    "Fact",
    "Role",
    "Scene",
    "change_one",
    "claims_of",
    "clearly_differ",
    "compose",
    "composed_scenes",
    "describe",
    "fact_names",
    "holds",
    "location",
    "read_location",
    "render",
    "render_location",
    "sample_scene",
    "scenes",
    "ways_to_say",
]
