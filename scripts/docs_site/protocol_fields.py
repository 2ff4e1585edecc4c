"""The page on the fields of a protocol: what each is, why it matters, and an example."""

from __future__ import annotations

from dataclasses import fields
from typing import NamedTuple


class Entry(NamedTuple):
    """What the page says of a field."""

    what: str
    why: str
    example: str


FIELDS: dict[str, Entry] = {
    "collection": Entry(
        "The name of the collection.", "Results on different collections are different facts.", "`flickr8k`"
    ),
    "collection_fingerprint": Entry(
        "A hash over the images, captions and links that were read.",
        "Two files with the same name may hold different captions or splits. The hash shows it.",
        "`9f3c1e…`",
    ),
    "split": Entry(
        "The part of the collection that was searched.",
        "Models are trained on one part and measured on another.",
        "`test`, `train+val`",
    ),
    "relevance": Entry(
        "Which judgements say what a right answer is.",
        "`links` counts only the image's own captions. CxC and ECCV Caption judge more pairs as right, so numbers rise.",
        "`links`, `cxc`, `eccv`",
    ),
    "galleries": Entry(
        "For each task: how many candidates were searched, which, and their hash.",
        "A larger gallery is harder. 1,000 candidates give much higher recall than 5,000.",
        "`t2i: 1,000 images (all of the test split) · 5d02…`",
    ),
    "queries": Entry(
        "For each task: how many queries there were, and their hash.",
        "A measure is a mean over queries. Other queries give another mean.",
        "`t2i: 5,000 captions · 77ab…`",
    ),
    "captions": Entry(
        "Which captions of an image were used.",
        "Some papers use all five captions, others the first one or a random one.",
        "`all`, `first`, `first 5`, `random(seed=0)`",
    ),
    "similarity": Entry(
        "How two vectors are compared.",
        "Cosine and dot product order answers differently when vectors are not of unit length.",
        "`cosine`, `dot`",
    ),
    "recall": Entry(
        "What R@k means: any right answer in the top k (`hit`), the share of right answers found (`recall`), or hits divided by "
        "min(k, right answers) (`capped_recall`).",
        "An image has five right captions. For image to text, the readings can differ by a factor of five at R@1.",
        "`hit`",
    ),
    "ties": Entry(
        "How equal scores are ordered.",
        "A system that gives every pair the same score would look good or bad by chance.",
        "`id`, `pessimistic`, `optimistic`",
    ),
    "depth": Entry(
        "How many answers per query a run holds; none if ranks are exact to the end of the gallery.",
        "The median rank cannot be computed from the top ten.",
        "`100`",
    ),
    "folds": Entry(
        "Into how many equal parts the gallery was divided. The result is the mean over the parts.",
        'COCO\'s "5-fold 1k" has galleries of 1,000 images, COCO\'s "5k" one of 5,000. The first gives far higher numbers.',
        "`1`, `5`",
    ),
    "estimator": Entry(
        "The model that says how relevant a wrong answer is, for the measure `dcg_cm`.",
        "If it is the system under test, the measure is circular. The card says so.",
        "`openai/clip-vit-base-patch32`",
    ),
    "query_template": Entry(
        "The text around each query.",
        '"a photo of {}" changes the vector of a query, and so its answers.',
        "`a photo of {}`",
    ),
    "rerank": Entry(
        "How many of the best candidates a second stage put into a new order, and what comes after them.",
        "The second stage cannot find what the first stage did not pass on.",
        "`top 128; nothing behind them`",
    ),
    "perturbation": Entry(
        "How queries or pictures were changed before the search.",
        "Typos or noise lower the numbers on purpose.",
        "`nearby_char, severity 1, seed 0`",
    ),
    "extra": Entry(
        "Further conditions by name, for example numbers that were put on the images.",
        "They are part of the task, so they must be equal in a comparison.",
        "`shortcuts: …`",
    ),
    "image_preprocessing": Entry(
        "How the system resizes, cuts and normalises images.",
        "It belongs to the system. It is shown because it often explains a difference.",
        "`resize 224 bicubic, centre crop`",
    ),
    "text_preprocessing": Entry(
        "How the system prepares texts.", "It belongs to the system, and may explain a difference.", "`lower case`"
    ),
    "truncation": Entry(
        "After how many tokens texts are cut, and how many texts that concerns.",
        "Long captions lose their end. It belongs to the system.",
        "`77 tokens; 12 of 5,000 texts cut`",
    ),
    "vocabulary": Entry(
        "The words of sparse vectors: name, size and hash.",
        "It belongs to the system.",
        "`bert-base-uncased, 30,522 · 1c9d…`",
    ),
    "vectors_per_item": Entry(
        "Of models of late interaction: how many vectors an item has on average, their length and their arithmetic.",
        "It belongs to the system. More vectors cost more memory and time.",
        "`image 49, text 11.3 · 128 dimensions, float16`",
    ),
    "composition": Entry(
        "How one vector is made of a picture and a text.",
        "It belongs to the system, as a weight that was chosen does.",
        "`sum(0.5)`",
    ),
    "matcher": Entry(
        "The model of a second stage, and which of its scores is used.",
        "It belongs to the system, as its vectors do.",
        "`Salesforce/blip-itm-base-flickr, itm`",
    ),
}


def page() -> dict[str, str]:
    """Path → Markdown. A field that is missing here, or unknown, stops the build."""
    from visir.records.result import SYSTEM_FIELDS, Protocol

    declared = [field.name for field in fields(Protocol)]
    if declared != list(FIELDS):
        raise ValueError(
            f"fields of Protocol: {declared}; described: {list(FIELDS)} (scripts/docs_site/protocol_fields.py)"
        )
    parts = [
        "# Fields of a protocol",
        "Every result of visir carries a *protocol*: what was searched, with which queries, and how it was measured. "
        "`visir evaluate` prints it below the table; `result.protocol` holds it in Python.",
        "**Two results are compared only if all fields of the task are equal.** The fields of the system may differ: "
        "they are shown because they explain differences. The last line of the card, `protocol`, is a hash over the fields of "
        "the task: equal hashes mean that two numbers may be compared.",
        "## Fields of the task",
        *(_entry(name) for name in declared if name not in SYSTEM_FIELDS),
        "## Fields of the system",
        *(_entry(name) for name in declared if name in SYSTEM_FIELDS),
    ]
    return {"reference/protocol.md": "\n\n".join(parts) + "\n"}


def _entry(name: str) -> str:
    entry = FIELDS[name]
    return f"### {name}\n\n{entry.what}\n\n**Why it matters.** {entry.why}\n\n**Example.** {entry.example}"
