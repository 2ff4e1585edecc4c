"""The card of a model for the Hugging Face Hub: what it is, how it is used and was made, its results with protocol.

Numbers stand in three places, each with what they depend on: in the text; as the `model-index` in the head of the card;
and in `.eval_results/*.yaml`, where the Hub knows the data set as a benchmark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isnan
from typing import TYPE_CHECKING, Any

from visir.encoders.families import models
from visir.errors import VisirError
from visir.evaluation.folds import clusters_of
from visir.evaluation.measures import measure_estimate
from visir.evaluation.results import Evaluation
from visir.evaluation.scoring import typical_measures
from visir.records.collection import task_words
from visir.reports.evaluation import expected_by_chance
from visir.reports.formats import markdown_text, to_markdown
from visir.reports.table import Column, Table, between
from visir.reports.tables import card_table
from visir.reports.words import display, in_reading_order, in_words, paper_name
from visir.version import __version__

if TYPE_CHECKING:
    from visir.encoders.base import Encoder

HOME = "https://github.com/visir-project/visir"
HUB_NAME = r"[\w.-]+/[\w.-]+"
"""OWNER/NAME: a model or a data set on the Hub."""


@dataclass(frozen=True)
class Subject:
    """What a card is about.

    Attributes:
        name: Its name on the Hub, OWNER/NAME; before it has one, a name alone.
        title: The heading.
        encoder: The model, loaded.
        library: Which library its folder is of: "visir", "transformers", "sentence-transformers", "peft", "open_clip".
        bases: The models it was made from, by their names on the Hub.
        adapts: Whether its weights are adapters or heads, which need the bases; else it was tuned from them.
        training: What its checkpoint says of its training; {} for a model of no training.
        subfolder: Where in the folder the adapter lies that peft reads; "" for its top.
        licence: As the Hub spells it ("apache-2.0"); "" where nobody has said it.
        languages: Of the texts that it reads, as ISO 639 codes.
        datasets: Names on the Hub of what it was trained on.
    """

    name: str
    title: str
    encoder: Encoder
    library: str
    bases: tuple[str, ...] = ()
    adapts: bool = False
    training: Mapping[str, Any] = field(default_factory=dict)
    subfolder: str = ""
    licence: str = ""
    languages: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()

    @property
    def takes(self) -> str:
        """What it encodes, in words: "pictures and texts"."""
        names = {"image": "pictures", "text": "texts"}
        return " and ".join(names[kind] for kind in names if kind in self.encoder.modalities)


# Numbers: each measure of each task with its interval, what chance reaches, and how many queries there were.


@dataclass(frozen=True)
class CardNumber:
    """One measured number, as it is printed: fractions in percent, the rest as it is."""

    task: str
    measure: str  # "hit@1"
    name: str  # "R@1"
    value: float
    low: float  # of the 95 % interval; NaN where there is none
    high: float
    chance: float  # of a random order; NaN where it is not known
    queries: int

    @property
    def interval(self) -> str:
        """Both ends: "37.1 … 40.2"; "" where there is none."""
        return str(between(self.low, self.high, self.column) or "")

    @property
    def column(self) -> Column:
        """How its values are printed."""
        return Column(self.name, display(self.measure).digits)


@dataclass(frozen=True)
class CardResult:
    """A result, its numbers, and where the Hub has its data."""

    evaluation: Evaluation
    slug: str  # what its files are called
    datasets: Mapping[str, tuple[str, str]]  # by task: the name of the data set on the Hub, and that of its task there
    headline: str = ""  # the measure that stands in `.eval_results`, as people type it; "" for the first

    @cached_property
    def numbers(self) -> list[CardNumber]:
        """The recall that the protocol names and rsum, or else every mean."""
        result = self.evaluation.result
        expected = expected_by_chance(result, self.evaluation.runs, self.evaluation.qrels)
        numbers = []
        for task, table in result.per_query.items():
            aggregated = result.aggregates.get(task, {})
            names = [*typical_measures(result), *(["rsum"] if "rsum" in aggregated else [])]
            for name in in_reading_order(dict.fromkeys([*self._chosen(task), *names]), result.protocol):  # type: ignore[arg-type]
                if name in aggregated:
                    scale = display(name).scale
                    low = high = chance = float("nan")
                    if name in table.column_names:
                        ends = measure_estimate(name, result.values(task, name), clusters_of(result, task))
                        low, high = scale * ends.low, scale * ends.high
                    base, _, cutoff = name.partition("@")
                    if task in result.chance and name in result.chance[task].column_names:
                        chance = scale * float(result.chance[task][name].to_numpy().mean())
                    elif base == "hit" and task in expected and int(cutoff) <= len(expected[task]):
                        chance = scale * float(expected[task][int(cutoff) - 1])
                    shown = paper_name(name, result.protocol.recall)
                    value = scale * aggregated[name]
                    numbers.append(CardNumber(task, name, shown, value, low, high, chance, table.num_rows))
        return numbers

    def _chosen(self, task: str) -> list[str]:
        """The measure that was asked for, as its column is called."""
        return [self.evaluation._column(task, self.headline)] if self.headline else []

    def condition(self, number: CardNumber) -> str:
        """What a number is, and what it depends on, in a line."""
        name = f"{number.name} is {number.measure}" if number.name != number.measure else number.name
        interval = f"95 % interval {number.interval}" if number.interval else ""
        chance = "" if isnan(number.chance) else f"chance {number.column.text(number.chance)}"
        return "; ".join(filter(None, [name, interval, chance, self._conditions(number.task)]))

    def _conditions(self, task: str) -> str:
        """What the numbers of a task depend on."""
        protocol = self.evaluation.protocol
        facts = [f"queries: {protocol.queries[task]}"] if task in protocol.queries else []
        facts += [f"candidates: {protocol.galleries[task]}"] if task in protocol.galleries else []
        facts += [f"split {protocol.split}"] if protocol.split else []
        facts += [f"{name} {getattr(protocol, name)}" for name in ("captions", "similarity", "ties", "relevance")]
        facts += [f"{protocol.folds} folds"] * (protocol.folds > 1)
        facts += [f"queries in {protocol.query_template!r}"] * (protocol.query_template != "{}")
        facts += [f"{name} {value}" for name in ("rerank", "perturbation") if (value := getattr(protocol, name))]
        facts += [f"{name} {value}" for name, value in protocol.extra.items()]
        version = self.evaluation.result.versions.get("visir", __version__)
        return "; ".join([*facts, f"visir {version}, protocol {protocol.fingerprint[:12]}"])

    def entries(self, source: str) -> list[Any]:
        """The `EvalResultEntry` of each task whose data set the Hub knows; `source` is the address of the result."""
        from huggingface_hub import EvalResultEntry

        entries = []
        for task, (dataset, task_id) in self.datasets.items():
            chosen = self._chosen(task)
            numbers = [each for each in self.numbers if each.task == task and (not chosen or each.measure in chosen)]
            for number in numbers[:1]:  # the Hub shows one number for each task of a data set
                where = {"source_url": source, "source_name": f"visir {__version__}"} if source else {}
                value = round(number.value, 4)
                entries.append(EvalResultEntry(dataset, task_id, value, notes=self.condition(number), **where))
        return entries

    def index(self) -> Iterator[Any]:
        """The `EvalResult` of each number, for the `model-index`."""
        from huggingface_hub import EvalResult

        protocol = self.evaluation.protocol
        for number in self.numbers:
            dataset, _ = self.datasets.get(number.task, (protocol.collection, ""))
            facts = {"low": number.low, "high": number.high, "chance": number.chance}
            yield EvalResult(
                task_type="image-text-retrieval" if number.task in ("t2i", "i2t") else "retrieval",
                task_name=task_words(number.task),
                dataset_type=dataset,
                dataset_name=protocol.collection,
                dataset_config=number.task,  # without it the Hub would take the numbers of all tasks for those of one
                dataset_split=protocol.split or None,
                dataset_args={"protocol": protocol.fingerprint, "conditions": self._conditions(number.task)},
                metric_type=number.measure,
                metric_name=number.name,
                metric_value=round(number.value, 4),
                metric_args={name: round(value, 4) for name, value in facts.items() if not isnan(value)} or None,
            )


# The head of the card: what the Hub sorts and filters by.


def head(subject: Subject, results: Sequence[CardResult]) -> str:
    """The YAML between the two lines "---"."""
    from huggingface_hub import ModelCardData

    numbers = [each for measured in results for each in measured.index()]
    relation: dict[str, Any] = (
        {"base_model_relation": "adapter" if subject.adapts else "finetune"} if subject.bases else {}
    )
    card = ModelCardData(
        language=list(subject.languages) or None,
        license=subject.licence or None,
        library_name=subject.library,
        pipeline_tag=pipeline_of(subject),
        tags=_tags(subject),
        base_model=list(subject.bases) or None,
        datasets=list(subject.datasets) or None,
        model_name=subject.title if numbers else None,
        eval_results=numbers or None,
        **relation,
    )
    return card.to_yaml()


def pipeline_of(subject: Subject) -> str:
    """The task under which the Hub lists it."""
    takes, form = subject.encoder.modalities, subject.encoder.form
    if "image" not in takes:
        return "sentence-similarity" if subject.library == "sentence-transformers" else "feature-extraction"
    if "text" not in takes:
        return "image-feature-extraction"
    if form == "multi-vector":
        return "visual-document-retrieval"
    return (
        "zero-shot-image-classification" if subject.library in ("transformers", "open_clip") else "feature-extraction"
    )


def _tags(subject: Subject) -> list[str]:
    takes = subject.encoder.modalities
    tags = ["visir", "image-text-retrieval" if {"image", "text"} <= takes else "retrieval"]
    tags += [subject.library] * (subject.library != "visir")
    if form := {"sparse": ["sparse"], "multi-vector": ["multi-vector", "late-interaction"]}.get(_form(subject)):
        tags += form
    return [*tags, *(["lora"] if subject.adapts and subject.training.get("recipe", {}).get("adapter") else [])]


def _form(subject: Subject) -> str:
    return "sparse" if subject.encoder.card.family.startswith("sparse") else subject.encoder.form


# The text.


def card_text(subject: Subject, results: Sequence[CardResult]) -> str:
    """The whole README.md."""
    sections = [
        f"# {subject.title}",
        _what(subject),
        f"## How to use it\n\n{_use(subject)}",
        *([f"## How it was made\n\n{made}"] if (made := _made(subject)) else []),
        f"## Results\n\n{_results(results, subject.training)}",
        f"## Limits\n\n{_limits(subject, results)}",
        f"## Citation\n\n{_citation(subject)}",
    ]
    return f"---\n{head(subject, results)}\n---\n\n" + "\n\n".join(section.strip() for section in sections) + "\n"


def _what(subject: Subject) -> str:
    encoder, takes = subject.encoder, subject.encoder.modalities
    dimension = encoder.dimension
    both = {"image", "text"} <= takes
    if _form(subject) == "sparse":
        what = f"writes {subject.takes} as weighted words of a vocabulary of {dimension:,}"
        finds = "An inverted index searches them as it searches texts, and the words say why something was found."
    elif encoder.form == "multi-vector":
        what = f"gives {subject.takes} several vectors each, of {dimension:,} values, compared by MaxSim"
        finds = f"So a single word{' or place of a picture' * ('image' in takes)} can decide (late interaction)."
    else:
        what = f"turns {subject.takes} into vectors of {dimension:,} values" + (" in one space" if both else "")
        finds = "A text finds the pictures that it describes, and a picture its texts." if both else (
            "Vectors that are near each other stand for inputs that are alike."
        )  # fmt: skip
    of = ""
    if subject.bases:
        how = "adapts" if subject.adapts else "was tuned from"
        of = f" It {how} {' and '.join(f'[{base}](https://huggingface.co/{base})' for base in subject.bases)}."
    recipe = subject.training.get("recipe", {})
    recipe_name = re.sub(r"[\s`]+", " ", str(recipe.get("name") or ""))  # nothing ends the code that it is shown as
    trained = f" It was trained with [visir]({HOME}) by the recipe `{recipe_name}`." if recipe_name else ""
    return f"This model {what}. {finds}{of}{trained}"


def _use(subject: Subject) -> str:
    name, takes = subject.name, subject.encoder.modalities
    prefix = "st:" * (subject.library == "sentence-transformers")
    loads = f'import visir\n\nmodel = visir.load("{prefix}{name}")'
    if subject.library == "open_clip":
        loads = f'import visir\nfrom huggingface_hub import snapshot_download\n\nfolder = snapshot_download("{name}")'
        loads += "\nmodel = visir.load(folder)"
    does = 'vectors = model.encode_texts(["a dog on a beach"])'
    if {"image", "text"} <= takes:
        does = 'print(visir.search("photos/", model, "a dog on a beach"))'
    elif "image" in takes:
        does = 'print(visir.search("photos/", model, "one-of-them.jpg"))'
    parts = [f"With [visir]({HOME}) (`pip install git+{HOME}`):\n\n```python\n{loads}\n{does}\n```"]
    base = subject.bases[0] if subject.bases else "BASE"
    folder = f', subfolder="{subject.subfolder}"' if subject.subfolder else ""
    others = {
        "transformers": (
            "transformers",
            f'from transformers import AutoModel, AutoProcessor\n\nmodel = AutoModel.from_pretrained("{name}")\n'
            f'processor = AutoProcessor.from_pretrained("{name}")',
        ),
        "sentence-transformers": (
            "sentence-transformers",
            f"from sentence_transformers import {_sentence_class(subject)}\n\n"
            f'model = {_sentence_class(subject)}("{name}")\nvectors = model.encode(["a dog on a beach"])',
        ),
        "peft": (
            "peft",
            "from peft import PeftModel\nfrom transformers import AutoModel\n\n"
            f'model = PeftModel.from_pretrained(AutoModel.from_pretrained("{base}"), "{name}"{folder})',
        ),
        "open_clip": (
            "open_clip",
            f'import open_clip\n\nmodel, preprocess = open_clip.create_model_from_pretrained("hf-hub:{name}")\n'
            f'tokenizer = open_clip.get_tokenizer("hf-hub:{name}")',
        ),
    }
    library = "peft" if subject.subfolder else subject.library
    if library in others:
        title, code = others[library]
        parts.append(f"With {title}:\n\n```python\n{code}\n```")
    return "\n\n".join(parts)


def _sentence_class(subject: Subject) -> str:
    return {"sparse": "SparseEncoder", "multi-vector": "MultiVectorEncoder"}.get(_form(subject), "SentenceTransformer")


def _made(subject: Subject) -> str:
    facts = subject.training
    if not facts:
        return ""
    recipe: Mapping[str, Any] = facts.get("recipe", {})
    objective, optimiser = recipe.get("objective", {}), recipe.get("optimiser", {})
    temperature = facts.get("objective", {}).get("temperature")
    seconds = facts.get("seconds", {}).get("training")
    epochs = f"{facts['chosen_epoch']} of {len(facts['curve'])} run" if facts.get("curve") else None
    rows = {
        "recipe": recipe.get("name"),
        "data": recipe.get("data", {}).get("collection"),
        "splits": " and ".join(
            str(recipe["data"][part]) for part in ("train", "validation") if recipe["data"].get(part)
        )
        if recipe.get("data")
        else None,
        **{f"{side} side": _side(recipe[side]) for side in ("image", "text") if isinstance(recipe.get(side), Mapping)},
        "built over": recipe.get("encoder"),
        "adapter": _plainly(recipe.get("adapter")),
        "objective": objective.get("name"),
        "temperature": f"{temperature:.4g}" if isinstance(temperature, float) else None,
        "epoch kept": epochs,
        "batch": optimiser.get("batch"),
        "optimiser": f"{optimiser.get('name')}, rate {optimiser.get('rate'):g}" if optimiser.get("rate") else None,
        "seed": recipe.get("seed"),
        "arithmetic": recipe.get("precision"),
        "time": f"{seconds:,.0f} s" if seconds and seconds >= 1 else None,
        "versions": ", ".join(f"{name} {value}" for name, value in facts.get("versions", {}).items()),
    }
    table = Table.pairs([(name, str(value)) for name, value in rows.items() if value not in (None, "", "none")])
    text = f"{to_markdown(table)}\nAll settings are in `recipe.toml`; `visir train recipe.toml` trains it again."
    if figures := facts.get("validation"):
        listed = ", ".join(f"{name} {value:.1f}" for name, value in figures.items())
        text += (
            f"\n\nAt that epoch the validation split had {listed}. These figures chose the epoch: they test nothing."
        )
    return text


def _side(side: Mapping[str, Any]) -> str:
    """How one side of a recipe is made: "frozen: pixels, a head over it"."""
    encoder = side.get("encoder")
    of = " + ".join(map(str, encoder)) if isinstance(encoder, list) else str(encoder or "")
    return ": ".join(filter(None, [str(side.get("tower", "")), of]))


def _plainly(value: Any) -> str | None:
    if not isinstance(value, Mapping):
        return None if value is None else str(value)
    return ", ".join(f"{name} {_plainly(item)}" for name, item in value.items() if item not in (None, [], {}))


def _saw(training: Mapping[str, Any], collection: str, split: str) -> bool:
    """Whether a split holds what a model was trained on, as far as names tell."""
    data = training.get("recipe", {}).get("data", {})
    is_same = collection.casefold() in str(data.get("collection", "")).casefold()
    return is_same and (split in ("", "all") or str(data.get("train")) in split.split("+"))


def _results(results: Sequence[CardResult], training: Mapping[str, Any]) -> str:
    if not results:
        return "It has not been measured yet."
    parts = []
    for measured in results:
        evaluation, protocol = measured.evaluation, measured.evaluation.protocol
        split = f", split {markdown_text(protocol.split)}" if protocol.split else ""
        rows = [
            [
                task_words(each.task),
                each.name,
                each.column.text(each.value),
                each.interval or None,
                None if isnan(each.chance) else each.column.text(each.chance),
                f"{each.queries:,}",
            ]
            for each in measured.numbers
        ]
        heads = ["task", "measure", "value", "95 % interval", "chance", "queries"]
        columns = [Column(name, None if name in heads[:2] or name == heads[3] else 0) for name in heads]
        first = next((each for each in measured.numbers if each.measure.startswith("hit@")), None)
        sentences = []
        if first is not None:
            cutoff, value = int(first.measure.partition("@")[2]), evaluation.aggregates[first.task][first.measure]
            sentences = [_plain_text(str(in_words(protocol, first.task, cutoff, value)))]
        if _saw(training, protocol.collection, protocol.split):
            sentences.append("**The model was trained on a part of this split**: on new data it finds less.")
        fold = f"<details><summary>Protocol</summary>\n\n{to_markdown(card_table(protocol))}\n</details>"
        notes = [f"- {markdown_text(note)}" for note in evaluation.notes]
        block = [
            f"### {markdown_text(protocol.collection)}{split}",
            *sentences,
            to_markdown(Table.of(columns, rows)).strip(),
        ]
        block += ["Fractions in percent. The interval is of the mean over queries; chance is a random order.", fold]
        parts.append("\n\n".join([*block, *(["\n".join(notes)] if notes else [])]))
    same = (
        "A number may be compared with others of its own protocol (its hash is in the last line), and with no others."
    )
    return "\n\n".join([same, *parts])


def _plain_text(words: str) -> str:
    """Sentences without the marks of a page."""
    return re.sub(r"<[^>]+>", "", words).replace("&nbsp;", " ").replace("&amp;", "&")


def _limits(subject: Subject, results: Sequence[CardResult]) -> str:
    encoder, lines = subject.encoder, []
    limit = encoder.text_limit() if "text" in encoder.modalities else None
    if limit is not None:
        lines.append(f"It reads the first {limit.tokens:,} tokens of a text, and nothing behind them.")
    size = encoder.card.image_preprocessing.get("size")
    if "image" in encoder.modalities and (pixels := _pixels(size)):
        lines.append(f"It sees pictures of {pixels} pixels: small things in large pictures are lost.")
    if subject.languages:
        lines.append(f"Texts in other languages than `{'`, `'.join(subject.languages)}` were not tried.")
    else:
        lines.append("Which languages it reads is not stated; try yours before you rely on it.")
    if subject.bases:
        owned = [f"{base} ({licence})" for base in subject.bases if (licence := _licence_of(base))]
        under = f" Licences: {', '.join(owned)}." if owned else ""
        lines.append(f"What its base learnt, it has too, its mistakes and prejudices among it: see its card.{under}")
    if data := subject.training.get("recipe", {}).get("data", {}).get("collection"):
        lines.append(f"It learnt from {markdown_text(str(data))} alone; on other pictures and texts it can be worse.")
    if results:
        named = dict.fromkeys(measured.evaluation.protocol.collection for measured in results)
        lines.append(
            f"It was measured on {', '.join(map(markdown_text, named))} only; the numbers say nothing about other data."
        )
    else:
        lines.append("Nobody has measured it yet.")
    if not subject.licence:
        lines.append("Its licence is not stated.")
    return "\n".join(f"- {line}" for line in lines)


def _pixels(size: Any) -> str:
    if isinstance(size, Mapping):
        size = size.get("shortest_edge") or [size.get("height"), size.get("width")]
    if isinstance(size, int):
        return f"{size} × {size}"
    return f"{size[0]} × {size[1]}" if isinstance(size, Sequence) and len(size) == 2 and all(size) else ""


def _licence_of(name: str) -> str:
    """The licence of a well-known model; "" where it is not known."""
    try:
        return next((model.licence for model in models(name) if model.name.removeprefix("st:") == name), "")
    except VisirError:
        return ""


def _citation(subject: Subject) -> str:
    key = re.sub(r"\W+", "-", subject.name).strip("-").lower()
    own = [f"@misc{{{key},", f"  title = {{{subject.title}}},"]
    own += [f"  howpublished = {{\\url{{https://huggingface.co/{subject.name}}}}}", "}"]
    tool = ["@software{visir,", "  title = {visir: image–text retrieval whose numbers can be trusted},"]
    tool += ["  author = {{The visir authors}},", f"  url = {{{HOME}}}", "}"]
    return "\n".join(["```bibtex", *own, "", *tool, "```"])
