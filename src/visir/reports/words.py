"""What numbers are called and what they mean, in words: measure headings, and the protocol as sentences."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import visir.reports.page as page
from visir.evaluation.measures import MEASURES, Measure, base_of
from visir.evaluation.measures.measure import everyday_name
from visir.records import Protocol
from visir.records.collection import task_words as task_words
from visir.reports.page import Block, Card, CloudWord, Paragraph, Thumbnail, WordCloud, embedded
from visir.reports.shown import cut
from visir.sparse.top_terms import TopTerms

if TYPE_CHECKING:
    from PIL.Image import Image

    from visir.evaluation.by_label import ByLabel
    from visir.evaluation.compare import Comparison


# The sheet of `visir explain-vector`: pictures and texts with their words, sized by weight, as one HTML page.

_SIDE, _QUALITY = 560, 84
_SMALLEST = 0.78
"""Of the lightest word shown, in rem; the heaviest has `_LARGEST`."""
_LARGEST = 2.0


def write_word_sheet(path: str | Path, cards: Sequence[TopTerms], *, title: str, subtitle: str) -> Path:
    """Write the page and return its path."""
    path = Path(path)
    page.check_page(path, NO_SHEET)
    lead = Paragraph(
        "Each vector is a set of weighted words; a word is as large as its weight. Of a text’s words those that it has "
        "itself are coloured, those it was expanded by are not; all of a picture’s are.",
        "lead",
    )
    blocks: list[Block] = [lead, page.Cards([word_card(card) for card in cards], width=21)]
    section = page.Section("words", "Vectors in words", blocks)
    return page.write_page(path, page.Page("vectors in words", title, [section], [subtitle]))


NO_SHEET = "the sheet is a page (.html)"


def word_card(shown: TopTerms) -> Card:
    """A picture, or a text, with its words; and its caption with the words of that."""
    caption, picture = shown.caption, _thumbnail(shown.picture)
    is_text = picture is None and caption is None
    blocks: list[Block] = [Paragraph(cut(shown.title))] if is_text else []
    blocks.append(_cloud(shown, is_small=is_text))
    if caption is not None:
        blocks += [Paragraph(cut(caption.title)), _cloud(caption, is_small=True)]
    if not is_text:
        blocks.append(Paragraph(shown.title, "soft"))
    return Card(picture=picture, alt=cut(caption.title) if caption is not None else shown.title, blocks=blocks)


def _cloud(shown: TopTerms | None, *, is_small: bool) -> WordCloud:
    """Words from heavy to light, their size by their weight over the heaviest one's; small ones beside a caption."""
    if shown is None or not shown.terms:
        return WordCloud([])
    heaviest = shown.terms[0][1]
    words = []
    for term, weight in shown.terms:
        size = _SMALLEST + (_LARGEST - _SMALLEST) * (weight / heaviest) ** 2
        words.append(
            CloudWord(
                term.removeprefix("##"),
                max(0.62 * size, 0.76) if is_small else size,
                f"{weight:.2f}",
                "own" if term in shown.own or not is_small else "other",
                term.startswith("##"),
            )
        )
    return WordCloud(words)


def _thumbnail(picture: Image | None) -> Thumbnail | None:
    if picture is None:
        return None
    small = picture.copy()
    small.thumbnail((_SIDE, _SIDE))
    return embedded(small.convert("RGB"), "JPEG", quality=_QUALITY)


RECALL_WORDS = {
    "hit": "hit@k: a query scores 1 when any one of its positives is among the first k, otherwise 0. This is what "
    "papers on image–text retrieval call R@k.",
    "recall": "recall@k: the share of a query's positives that is among the first k. An image with five captions can "
    "reach at most 20 % at k = 1, so these numbers are not comparable with hit@k.",
    "capped_recall": "capped_recall@k: the positives among the first k over the smaller of k and the number of "
    "positives. It asks for all five captions at k = 5 and for only one at k = 1: hence R@5 can be below R@1.",
}
"""What each recall definition means, with the trap in it."""

TIE_WORDS = {
    "id": "Candidates with equal scores are ordered by their ids, a rule that knows nothing of which is right.",
    "pessimistic": "A positive that ties with a wrong candidate is ranked behind it.",
    "trec": "Equal scores: the larger document id first, as trec_eval and mteb order them.",
    "optimistic": "A positive that ties with a wrong candidate is ranked before it: a model that gives every pair the "
    "same score would be perfect under this rule.",
}
"""What each rule for ties means."""


@dataclass(frozen=True)
class Display:
    """How a measure is printed."""

    scale: float  # by what a value is multiplied
    digits: int  # decimals
    higher_is_better: bool = True  # whether a larger value is better
    says: str = ""  # one sentence on what it measures; "" for a name that is no registered measure


def display(measure: str) -> Display:
    """How the values of a measure are printed, as it says of itself in `visir.evaluation.measures`."""
    # Fractions in [0, 1] become percent with one digit, as papers print them; ranks and gains are printed as they are.
    # `rsum` is kept in percentage points already; `dcg_cm@p` has no upper bound of 1; any other name that is no
    # registered measure (imported values) is taken as a fraction.
    if measure == "rsum":
        return Display(1.0, 1, says="R@1 + R@5 + R@10 of the named recall, in percentage points: at most 300 a task.")
    if measure.startswith("dcg_cm"):
        return Display(1.0, 3, says="Cross-modal gain of the answers: 1 for a true pair, else an estimated similarity.")
    registered = _registered(measure)
    if registered is None:
        return Display(100.0, 1)
    scale, digits = {"fraction": (100.0, 1), "rank": (1.0, 1), "gain": (1.0, 3)}[registered.unit]
    return Display(scale, digits, registered.best == "high", registered.says)


def heading(measure: str, of: Protocol | Comparison | ByLabel) -> str:
    """The heading of a measure: the recall that the protocol names is R@k."""
    return everyday_name(measure, of.recall)


_PAPER_NAMES = {
    "precision": "P",
    "mrr": "MRR",
    "map": "MAP",
    "capped_map": "capped MAP",
    "map@r": "MAP@R",
    "rprecision": "R-precision",
    "ndcg": "nDCG",
    "ndcg_exp": "nDCG (exp)",
    "median_rank": "median rank",
    "mean_rank": "mean rank",
    "all_first": "accuracy",
    "item_score": "item score",
    "group_score": "group score",
}


def paper_names(measures: Sequence[str]) -> dict[str, str]:
    """How a paper heads the columns of measures: "R@1", "nDCG@10"; of two recalls each keeps the name it has here."""
    recalls = {base_of(name) for name in measures} & set(RECALL_WORDS)

    def paper_name(name: str) -> str:
        base, cutoff = (name, "") if name in _PAPER_NAMES else (base_of(name), name.removeprefix(base_of(name)))
        known = _PAPER_NAMES | ({next(iter(recalls)): "R"} if len(recalls) == 1 else {})
        return f"{known.get(base, base)}{cutoff}"

    return {name: paper_name(name) for name in measures}


def in_reading_order(measures: Sequence[str], protocol: Protocol) -> list[str]:
    """Measures as a reader wants them: the named recall by cutoff, `rsum`, then the others in their own order."""
    named = [name for name in measures if name.partition("@")[0] == protocol.recall and "@" in name]
    named.sort(key=_cutoff)
    first = [*named, *(name for name in measures if name == "rsum")]
    return [*first, *(name for name in measures if name not in first)]


def meaning(protocol: Protocol) -> list[tuple[str, str]]:
    """What a number under this protocol means, as (heading, sentences): what was searched, and how it was counted."""
    entries = []
    for task, candidates in protocol.galleries.items():
        queries = protocol.queries.get(task)
        text = f"Queries: {queries}. Candidates: {candidates}." if queries else f"Candidates: {candidates}."
        if "stated:" in candidates:
            text += " This gallery is stated by its authors, not listed one by one: it could not be checked."
        entries.append((task_words(task), text))
    entries.append(("Recall", RECALL_WORDS.get(protocol.recall, protocol.recall)))
    entries.append(("What counts as right", _relevance_words(protocol)))
    entries.append(("Ties", TIE_WORDS.get(protocol.ties, protocol.ties)))
    entries.append(
        (
            "Depth",
            "Ranks are exact to the end of the gallery."
            if protocol.depth is None
            else f"Answers go {protocol.depth:,} deep: a positive further down counts as not found.",
        )
    )
    if protocol.folds > 1:
        entries.append(
            (
                "Folds",
                f"Means over {protocol.folds} disjoint galleries. A smaller gallery makes every number higher: not "
                "comparable with a search of the whole.",
            )
        )
    if protocol.rerank:
        by = f" By {protocol.matcher}, which is the system's own." if protocol.matcher else ""
        entries.append(("Re-ranking", f"A second stage re-ranks: {protocol.rerank}.{by}"))
    if protocol.perturbation:
        entries.append(("Perturbation", f"The input was changed on purpose: {protocol.perturbation}."))
    if protocol.estimator:
        circular = (
            " The system under test grades itself here, which is circular." if "self" in protocol.estimator else ""
        )
        entries.append(("Estimated gains", f"Gains of dcg_cm are estimated by {protocol.estimator}.{circular}"))
    return entries


def in_words(protocol: Protocol, task: str, cutoff: int, value: float) -> str:
    """One sentence for a headline number; `value` is the fraction in [0, 1] of the protocol's named recall."""
    queries, documents = sides(protocol, task)
    positive = documents.removesuffix("s")
    percent = f"{100 * value:.1f} %"
    place = "first" if cutoff == 1 else f"among the first {cutoff}"
    if protocol.recall == "hit":
        # "a right image", not "the": under many-to-many judgements there are several.
        return f"{percent} of the {queries} have a right {positive} {place}."
    return f"On average {percent} of the right {positive}s{_bound(protocol, cutoff)} are {place}."


def sides(protocol: Protocol, task: str) -> tuple[str, str]:
    """What people call the queries and the documents of a task: ("captions", "images")."""
    titles = []
    for line, default in ((protocol.queries.get(task), 0), (protocol.galleries.get(task), 1)):
        counted = [title for title in _COUNTED.findall(line or "") if title != _POOLED]
        titles.append(counted[0] if counted else _SIDES.get(task, ("queries", "answers"))[default])
    return titles[0], titles[1]


def candidates_per_query(protocol: Protocol, task: str) -> int | None:
    """How many candidates each query has, where queries have pools of one size; 0 for pools of several sizes."""
    # None means that all documents are candidates of every query.
    line = protocol.galleries.get(task, "")
    if _POOLED not in line:
        return None
    count = line.partition(f" {_POOLED}")[0].replace(",", "")
    return int(count) if count.isdigit() else 0


_POOLED = "candidates per query"
_COUNTED = re.compile(r"(?:^|× |· )[\d,]+ ([^·×]+?) ·")
"""The lines of a protocol on queries and candidates begin so: "40 images · …", "5 × 1,000 images · …"."""
_SIDES = {"t2i": ("captions", "images"), "i2t": ("images", "captions")}


def _bound(protocol: Protocol, cutoff: int) -> str:
    return f" (at most {cutoff} counted)" if protocol.recall == "capped_recall" else ""


def _relevance_words(protocol: Protocol) -> str:
    is_linked = protocol.relevance == "links"
    if is_linked and not {"t2i", "i2t"} & protocol.galleries.keys():
        right = "The pairs that the task links; nothing else counts, however well it fits."
    elif is_linked:
        right = "A caption and the image it was written for; nothing else counts, however well it fits."
    else:
        right = f"The judgements called “{protocol.relevance}”: pairs graded above zero."
    captions = "" if protocol.captions in ("", "all") else f" Captions used per image: {protocol.captions}."
    return right + captions


def _registered(measure: str) -> Measure | None:
    """The registered measure of a name with or without cutoff; "map@r" is a whole name, "map(rel=2)@10" is "map"."""
    for name in (measure, base_of(measure)):
        if name in MEASURES:
            return MEASURES.get(name)
    return None


def _cutoff(measure: str) -> float:
    cutoff = measure.partition("@")[2]
    return float(cutoff) if cutoff.isdigit() else float("inf")
