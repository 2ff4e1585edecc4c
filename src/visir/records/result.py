"""The result: the values of every measure for each query, their aggregates, and the protocol."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.display import Displayed, Plotted, Tabular, brief, counted
from visir.errors import VisirError, nearest
from visir.fingerprint import hash_json
from visir.records.run import Gallery

# The protocol: everything except the system that a retrieval number depends on. Each field is declared once; the card,
# the checks of options, what forbids a comparison, and the page of reference on the fields read its declaration.

Recall = Literal["hit", "recall", "capped_recall"]
Ties = Literal["id", "pessimistic", "optimistic", "trec"]

UNDECLARED = "not declared"
"""The similarity of a run whose authors do not state it."""


@dataclass(frozen=True)
class Declared:
    """What is declared of a field of the protocol."""

    what: str  # what it is, in a sentence
    why: str  # why a number depends on it
    example: str  # values, as Markdown
    choices: Mapping[str, str] = field(default_factory=dict)  # what its option may be → what that means
    form: str = ""  # a regular expression of what its option may be, where `choices` are only examples
    least: int | None = None  # the least whole number that its option may be
    option: str = ""  # the option of `visir.evaluate` that it is set by, where that has another name
    called: str = ""  # what an error calls its value, where that is not the option
    is_condition: bool = False  # whether only the caller knows it (`conditions`)
    of_system: bool = False  # whether it belongs to the system under test: it may differ in a comparison

    def fault(self, option: str, value: Any) -> str:
        """What is wrong with a value of its option, or ""."""
        if self.least is not None:
            if not isinstance(value, int):
                return f"{option} must be a whole number, not {value!r}"
            return f"{option} must be at least {self.least}, not {value}" if value < self.least else ""
        text = value if isinstance(value, str) else repr(value)
        is_right = re.fullmatch(self.form, text) if self.form else not self.choices or text in self.choices
        return "" if is_right else f"unknown {self.called or option} {text!r} ({nearest(text, self.choices)})"


def declared(default: Any, what: str, why: str, example: str, **more: Any) -> Any:
    """A field of the protocol with its default, or `...` where it has none."""
    given = {} if default is ... else {"default_factory": default} if default is dict else {"default": default}
    return field(**given, metadata={"declared": Declared(what, why, example, **more)})


_SYSTEM = "It belongs to the system"


@dataclass(frozen=True)
class Protocol(Displayed):
    """What was searched, with which queries, over which candidates, and how it was measured.

    Two numbers may be compared only if all fields of the task are equal (see `differences`). The hash of these fields
    names the protocol. Fields of the system under test may differ: every model scores pairs, resizes images and cuts
    texts in its own way, and has its own matching head. `rerank` is a field of the task, because the number of
    candidates of a second stage limits what it can find. What each field means: `PROTOCOL`.

    Example:
        >>> first = Protocol("flickr30k", "0a", "test", similarity="cosine")
        >>> first.differences(first.changed(split="val", similarity="dot", image_preprocessing="resize 224"))
        {'split': ('test', 'val')}
    """

    collection: str = declared(
        ..., "The name of the collection.", "Results on different collections are different facts.", "`flickr8k`"
    )
    collection_fingerprint: str = declared(
        ...,
        "A hash over the images, captions and links that were read.",
        "Two files with the same name may hold different captions or splits. The hash shows it.",
        "`9f3c1e…`",
    )
    split: str = declared(
        ...,
        "The part of the collection that was searched.",
        "Models are trained on one part and measured on another.",
        "`test`, `train+val`",
    )
    relevance: str = declared(
        "links",
        "Which judgements say what a right answer is.",
        "`links` counts only the image's own captions. CxC and ECCV Caption judge more pairs as right, so numbers "
        "rise.",
        "`links`, `cxc`, `eccv`",
    )
    galleries: dict[str, str] = declared(
        dict,
        "For each task: how many candidates were searched, which, and their hash.",
        "A larger gallery is harder. 1,000 candidates give much higher recall than 5,000.",
        "`t2i: 1,000 images (all of the test split) · 5d02…`",
        option="gallery",
        choices={
            "split": "The images and captions of the split that is measured.",
            "collection": "Those of the whole collection.",
        },
    )
    queries: dict[str, str] = declared(
        dict,
        "For each task: how many queries there were, and their hash.",
        "A measure is a mean over queries. Other queries give another mean.",
        "`t2i: 5,000 captions · 77ab…`",
    )
    captions: str = declared(
        "all",
        "Which captions of an image were used.",
        "Some papers use all five captions, others the first one or a random one.",
        "`all`, `first`, `first 5`, `random(seed=0)`",
        called="choice of captions",
        form=r"all|first( [1-9]\d*)?|random(\(seed=\d+\))?",
        choices={
            "all": "All captions of each image.",
            "first": "The first one.",
            "first 5": "The first five, or another number.",
            "random": "One, drawn with the seed 0.",
            "random(seed=0)": "One, drawn with this seed.",
        },
    )
    similarity: str = declared(
        UNDECLARED,
        "How two vectors are compared.",
        "Cosine and dot product order answers differently when vectors are not of unit length. It is how a system "
        "ranks; what is measured is the ranking.",
        "`cosine`, `dot`",
        of_system=True,
        choices={
            "cosine": "Each vector is divided by its length first.",
            "dot": "Vectors as they are.",
            "maxsim": "Several vectors for each item: for each of the query's the greatest dot product with one of "
            "the document's, summed.",
        },
    )
    recall: Recall = declared(
        "hit",
        "What R@k means: any right answer in the top k, the share of the right answers found, or hits divided by "
        "min(k, right answers).",
        "An image has five right captions. For image to text, the readings can differ by a factor of five at R@1.",
        "`hit`",
        choices={
            "hit": "hit@k: a query scores 1 when any one of its positives is among the first k, otherwise 0. This "
            "is what papers on image–text retrieval call R@k.",
            "recall": "recall@k: the share of a query's positives that is among the first k. An image with five "
            "captions can reach at most 20 % at k = 1, so these numbers are not comparable with hit@k.",
            "capped_recall": "capped_recall@k: the positives among the first k over the smaller of k and the "
            "number of positives. It asks for all five captions at k = 5 and for only one at k = 1: hence R@5 can "
            "be below R@1.",
        },
    )
    ties: Ties = declared(
        "id",
        "How equal scores are ordered.",
        "A system that gives every pair the same score would look good or bad by chance.",
        "`id`, `pessimistic`",
        choices={
            "id": "Candidates with equal scores are ordered by their ids, a rule that knows nothing of which is right.",
            "pessimistic": "A positive that ties with a wrong candidate is ranked behind it.",
            "optimistic": "A positive that ties with a wrong candidate is ranked before it: a model that gives "
            "every pair the same score would be perfect under this rule.",
            "trec": "Equal scores: the larger document id first, as trec_eval and mteb order them.",
        },
    )
    depth: int | None = declared(
        None,
        "How many answers per query a run holds; none if ranks are exact to the end of the gallery.",
        "The median rank cannot be computed from the top ten.",
        "`100`",
    )
    folds: int = declared(
        1,
        "Into how many equal parts the gallery was divided. The result is the mean over the parts.",
        'COCO\'s "5-fold 1k" has galleries of 1,000 images, COCO\'s "5k" one of 5,000. The first gives far higher '
        "numbers.",
        "`1`, `5`",
        least=1,
    )
    estimator: str | None = declared(
        None,
        "The model that says how relevant a wrong answer is, for the measure `dcg_cm`.",
        "If it is the system under test, the measure is circular. The card says so.",
        "`openai/clip-vit-base-patch32`, `self (circular): …`",
    )
    query_template: str = declared(
        "{}",
        "The text around each query.",
        '"a photo of {}" changes the vector of a query, and so its answers.',
        "`a photo of {}`",
        is_condition=True,
    )
    rerank: str | None = declared(
        None,
        "How many of the best candidates a second stage put into a new order, and what comes after them.",
        "The second stage cannot find what the first stage did not pass on.",
        "`top 128; nothing behind them`",
        is_condition=True,
    )
    perturbation: str | None = declared(
        None,
        "How queries or pictures were changed before the search.",
        "Typos or noise lower the numbers on purpose.",
        "`nearby_char, severity 1, seed 0`",
        is_condition=True,
    )
    extra: dict[str, Any] = declared(
        dict,
        "Further conditions by name, for example numbers that were put on the images.",
        "They are part of the task, so they must be equal in a comparison.",
        "`shortcuts: …`",
        is_condition=True,
    )
    image_preprocessing: str = declared(
        "",
        "How the system resizes, cuts and normalises images.",
        f"{_SYSTEM}. It is shown because it often explains a difference.",
        "`resize 224 bicubic, centre crop`",
        of_system=True,
    )
    text_preprocessing: str = declared(
        "",
        "How the system prepares texts.",
        f"{_SYSTEM}, and may explain a difference.",
        "`lower case`",
        of_system=True,
    )
    truncation: str = declared(
        "",
        "After how many tokens texts are cut.",
        f"Long captions lose their end. {_SYSTEM}.",
        "`context length 77`",
        of_system=True,
    )
    vocabulary: str = declared(
        "",
        "The words of sparse vectors: name, size and hash.",
        f"{_SYSTEM}.",
        "`bert-base-uncased · 30,522 terms · 1c9d…`",
        of_system=True,
    )
    vectors_per_item: str = declared(
        "",
        "Of models of late interaction: how many vectors an item has on average, their length and their arithmetic.",
        f"{_SYSTEM}. More vectors cost more memory and time.",
        "`image 49, text 11.3 · 128 dimensions, float16`",
        of_system=True,
    )
    composition: str = declared(
        "",
        "How one vector is made of a picture and a text.",
        f"{_SYSTEM}, as a weight that was chosen does.",
        "`sum(0.5)`, `text`, `by the model`",
        of_system=True,
    )
    matcher: str = declared(
        "",
        "The model of a second stage, and which of its scores is used.",
        f"{_SYSTEM}, as its vectors do.",
        "`Salesforce/blip-itm-base-flickr, itm`",
        of_system=True,
    )

    def __repr__(self) -> str:
        lines = [f"{task}: {self.queries.get(task, '?')} → {of_task}" for task, of_task in self.galleries.items()]
        counted_as = f"similarity {self.similarity}, recall {self.recall}, ties {self.ties}, relevance {self.relevance}"
        return brief(
            self,
            f"{self.collection}{f', split {self.split}' if self.split else ''}, {self.fingerprint[:12]}",
            *lines[:3],
            counted_as,
        )

    @cached_property
    def fingerprint(self) -> str:
        """A hash over the task fields: equal exactly when two numbers may be compared."""
        return hash_json(self._task_fields())

    def differences(self, other: Protocol) -> dict[str, tuple[Any, Any]]:
        """Return {field: (own value, value of the other)} of the fields that forbid a comparison; {} if none does."""
        first, second = self._task_fields(), other._task_fields()
        return {name: (first[name], second[name]) for name in first if first[name] != second[name]}

    def system_differences(self, other: Protocol) -> dict[str, tuple[Any, Any]]:
        """Return {field: (own value, value of the other)} of the system's fields that differ, to show in a report."""
        first, second = asdict(self), asdict(other)
        return {
            name: (first[name], second[name])
            for name, about in PROTOCOL.items()
            if about.of_system and first[name] != second[name]
        }

    def card(self) -> list[tuple[str, str]]:
        """Return the protocol as (label, value) rows in reading order, without empty values."""
        rows = []
        for name, value in asdict(self).items():
            if value in (None, "", {}, "{}"):
                continue
            label = name.replace("_", " ")
            if isinstance(value, dict):
                rows += [(f"{label} {key}", str(entry)) for key, entry in value.items()]
            else:
                rows.append((label, str(value)))
        return [*rows, ("protocol", self.fingerprint[:12])]

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Protocol:
        """Make a protocol from the values of `to_dict`."""
        return cls(**values)

    def changed(self, **fields: Any) -> Protocol:
        """Return the protocol with these fields replaced."""
        return replace(self, **fields)

    def _task_fields(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if not PROTOCOL[name].of_system}


PROTOCOL: Mapping[str, Declared] = {item.name: item.metadata["declared"] for item in fields(Protocol)}
"""What is declared of each field of the protocol, by its name, in the order of the card."""


def option_faults(**options: Any) -> list[str]:
    """What is wrong with options that set fields of the protocol; None leaves an option to its default."""
    by_option = {about.option or name: about for name, about in PROTOCOL.items()}
    faults = [by_option[name].fault(name, value) for name, value in options.items() if value is not None]
    return [fault for fault in faults if fault]


def gallery_line(gallery: Gallery) -> str:
    """Return the line of a gallery on the card: size, title, description, fingerprint."""
    return f"{gallery.size:,} {gallery.title} · {gallery.description} · {gallery.fingerprint[:12]}"


@dataclass(frozen=True, eq=False)
class Result(Tabular, Plotted):
    """The values of every measure of one system.

    Two runs of the same evaluation differ in `timing` and `origins` only: the first computes the vectors, the second
    reads them from the store.

    Attributes:
        system: The name of the system.
        protocol: What was searched, and how it was measured.
        per_query: For each task a table with the column `query_id` and one float64 column per measure (fractions in
            [0, 1], ranks from 1).
        aggregates: For each task {measure: value}: means over queries in the same units, medians for `median_rank`.
            Sums such as `rsum` are in percentage points (0–300 per task, 0–600 in all, under the key "both"), as every
            paper prints them.
        versions: Of visir and of the packages that computed the numbers.
        timing: Seconds by stage.
        notes: What a reader must know, e.g. images that were left out.
        captions: Columns id and image_id of the captions that took part, in the order of the source; None when they are
            unknown. Captions of one image are not independent queries, so a significance test needs them.
        origins: Where the vectors (by modality) or runs (by task) come from, and when they were computed.
        labels: For each task whose queries have labels: `query_id` and one column of strings for each label, in the
            order of `per_query`.
        chance: For each task with pools: `query_id` and one column per measure, its expected value when every score is
            random, as far as that is known.
        beyond: For each task {measure: queries}: of how many queries the rank is not known, because nothing right is
            among the answers and these do not hold the whole gallery. In `per_query` it is one below the last answer.
    """

    system: str
    protocol: Protocol
    per_query: dict[str, pa.Table]
    aggregates: dict[str, dict[str, float]]
    versions: dict[str, str] = field(default_factory=dict)
    timing: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    captions: pa.Table | None = None
    origins: dict[str, str] = field(default_factory=dict)
    labels: dict[str, pa.Table] = field(default_factory=dict)
    chance: dict[str, pa.Table] = field(default_factory=dict)
    beyond: dict[str, dict[str, int]] = field(default_factory=dict)

    def __repr__(self) -> str:
        protocol = self.protocol
        lines = [f"{task}: {_headline(values, protocol.recall)}" for task, values in self.aggregates.items()]
        return brief(
            self,
            f"{self.system} on {protocol.collection}{f', split {protocol.split}' if protocol.split else ''}",
            *lines[:4],
            f"protocol {protocol.fingerprint[:12]}"
            + (f", {counted(len(self.notes), 'notes')}: {self.notes[0]}" if self.notes else ""),
        )

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks measured, e.g. ("i2t", "t2i")."""
        return tuple(self.per_query)

    @property
    def measures(self) -> tuple[str, ...]:
        """The names of the per-query measures."""
        return tuple(name for name in next(iter(self.per_query.values())).column_names if name != "query_id")

    def values(self, task: str, measure: str) -> NDArray[np.float64]:
        """Return the (n,) values of one measure, in the order of the table's `query_id`.

        Raises:
            VisirError: The task or the measure is unknown.
        """
        where = f"result {self.system}"
        if task not in self.per_query:
            raise VisirError(f"{where}: no task {task!r}", hint=nearest(task, self.per_query), code="no-task")
        table = self.per_query[task]
        if measure not in table.column_names:
            raise VisirError(f"{where}: no measure {measure!r}", hint=nearest(measure, self.measures))
        values: NDArray[np.float64] = table[measure].to_numpy().astype(np.float64)
        return values

    def mean(self, task: str, measure: str) -> float:
        """Return the aggregate of one measure in one task.

        Raises:
            VisirError: There is no such aggregate.
        """
        known = self.aggregates.get(task, {})
        if measure not in known:
            raise VisirError(f"result {self.system}: no {measure!r} for {task!r}", hint=nearest(measure, known))
        return known[measure]

    def last_rank(self, task: str, measure: str) -> int | None:
        """The last rank that was looked at, where ranks beyond it are not known; None where every rank is known."""
        if not self.beyond.get(task, {}).get(measure):
            return None
        return int(self.values(task, measure).max()) - 1  # a rank that is not known is one below the last

    def to_dict(self) -> dict[str, Any]:
        """Return everything except the tables, as plain values for JSON."""
        return {
            "system": self.system,
            "protocol": self.protocol.to_dict(),
            "protocol_fingerprint": self.protocol.fingerprint,
            "aggregates": self.aggregates,
            "beyond": self.beyond,
            "versions": self.versions,
            "timing": self.timing,
            "origins": self.origins,
            "notes": list(self.notes),
        }


def _headline(values: dict[str, float], recall: str) -> str:
    """The recall that the protocol names in percent and `rsum`; without R@1 the first measures as they are."""
    if f"{recall}@1" not in values:
        return ", ".join(f"{name} {value:.4g}" for name, value in list(values.items())[:4])
    shown = {f"R@{name.partition('@')[2]}": 100 * values[name] for name in values if name.startswith(f"{recall}@")}
    shown |= {name: value for name, value in values.items() if name == "rsum"}
    return ", ".join(f"{name} {value:.1f}" for name, value in list(shown.items())[:5])
