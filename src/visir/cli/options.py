"""What an option looks like, and those that several verbs have: once, so that each is the same everywhere."""

from __future__ import annotations

import functools
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

# Completion of names in the shell. Tab runs visir, so nothing here imports torch, and a fault completes nothing.


LARGEST = 20 * 2**20
"""Bytes of a file that is opened to complete the names of its splits."""
SPLITS = ("train", "val", "test")


def completes(names: Callable[..., Iterable[str]]) -> Callable[[typer.Context, str], list[str]]:
    """A completion from a function that lists names; it may take the context, and what is typed so far."""

    @functools.wraps(names)
    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        try:
            listed = list(names(ctx, incomplete))
        except Exception:  # a shell shows nothing of it, and the command itself will say what is wrong
            return []
        return [name for name in listed if name.startswith(incomplete)]

    complete.__annotations__ = {"ctx": typer.Context, "incomplete": str, "return": list[str]}
    del complete.__wrapped__
    return complete


def of(*names: str) -> Callable[[typer.Context, str], list[str]]:
    """A completion of fixed names."""
    return completes(lambda ctx, incomplete: names)


complete_device = of("cpu", "cuda", "mps", "openvino")
complete_correction = of("holm", "bonferroni", "bh", "none")


@completes
def complete_model(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Names of families ("pixels", "st:"), well-known models, and folders that hold a model."""
    from visir.encoders.families import FAMILIES, KINDS, models

    for family in map(FAMILIES.get, FAMILIES):
        yield from (f"{prefix}:" if f"{prefix}:" in family.form else prefix for prefix in family.prefixes)
        yield family.example
    yield from (model.name for model in models() if model.source)
    yield from _folders(incomplete, set(KINDS))


@completes
def complete_recipe(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Recipes of the verb that is typed, and TOML files."""
    from visir.training.shipped import recipes

    verb = "sparsify" if ctx.info_name == "sparsify" else "train"
    yield from (recipe.name for recipe in recipes(verb))
    yield from _files(incomplete, ".toml")


@completes
def complete_published(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Published tables that packages have: the names of their files."""
    from visir.plugins import PUBLISHED, plugin_folders

    yield from sorted({path.stem for folder in plugin_folders(PUBLISHED) for path in folder.rglob("*.json")})
    yield from _files(incomplete, ".json", ".toml")


@completes
def complete_format(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Formats of collections."""
    from visir.collections.formats import FORMATS

    return FORMATS


@completes
def complete_measure(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Measures, those with a cutoff as "hit@"."""
    from visir.evaluation.measures import DEFAULT_MEASURES, MEASURES

    return [*DEFAULT_MEASURES, *MEASURES]


@completes
def complete_index_kind(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Kinds of index."""
    from visir.retrieval.kinds import KINDS

    return KINDS


@completes
def complete_perturbation(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Perturbations of captions; behind a "+" the next of a chain."""
    from visir.robustness.perturbations import PERTURBATIONS

    before, plus, _ = incomplete.rpartition("+")
    return [f"{before}{plus}{name}" for name in ([*PERTURBATIONS] if plus else ["all", *PERTURBATIONS])]


@completes
def complete_split(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Splits of the source that is typed already; the usual ones where it is large or there is none."""
    from visir.collections import open_source

    source = next((ctx.params[name] for name in ("collection", "source", "place") if ctx.params.get(name)), None)
    before, plus, _ = incomplete.rpartition("+")
    names: Iterable[str] = SPLITS
    if isinstance(source, str) and (not Path(source).is_file() or Path(source).stat().st_size < LARGEST):
        names = [
            name
            for name in open_source(source, **({"images": "none"} if Path(source).is_file() else {})).splits
            if name
        ]
    return [f"{before}{plus}{name}" for name in names]


@completes
def complete_result(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Folders with a result, and folders on the way to one."""
    return _folders(incomplete, {"result"})


def _folders(incomplete: str, kinds: set[str]) -> Iterable[str]:
    """Folders that visir made of these kinds, and others, which end in "/" to go on from."""
    from visir.files import read_json

    at = Path(incomplete) if incomplete.endswith("/") else Path(incomplete).parent
    lead = "" if str(at) == "." and not incomplete.startswith("./") else f"{str(at).rstrip('/')}/"
    for folder in sorted(item for item in at.iterdir() if item.is_dir() and not item.name.startswith(".")):
        manifest = folder / "visir.json"
        if not manifest.is_file():
            yield f"{lead}{folder.name}/"
        elif not kinds or str(read_json(manifest).get("kind", "")) in kinds:
            yield f"{lead}{folder.name}"


def _files(incomplete: str, *suffixes: str) -> Iterable[str]:
    at = Path(incomplete).parent
    lead = "" if str(at) == "." else f"{at}/"
    return [f"{lead}{item.name}" for item in sorted(at.iterdir()) if item.suffix in suffixes]


Complete = Callable[[Any, str], list[str]]


# What an option looks like: how it is spelt, what its value is called, under which heading it stands. What it means is
# said by the docstring of the verb, or of the function that the verb calls; here only where several verbs share it.

DATA, COMPUTE, OUTPUT, PROTOCOL = "Data", "Compute", "Output", "Protocol"
"""Headings of the help."""


@dataclass(frozen=True)
class VerbOption:
    """How a parameter is typed on the command line; what is not said comes from the function and from its name."""

    names: tuple[str, ...] = ()  # "--template", "-t"
    about: str = ""
    name: str = ""  # of the parameter, where the verb has another than the function
    kind: Any = None  # the type, where a text on the command line is another than in Python
    default: Any = ...
    is_argument: bool = False
    more: Mapping[str, Any] = field(default_factory=dict)  # further settings of Typer

    def annotation(self, name: str, kind: Any, about: str, default: Any) -> Any:
        """The type with everything that Typer wants to know."""
        if self.is_argument:
            return Annotated[kind, typer.Argument(help=about or self.about, **self.more)]
        names = self.names
        if not names and kind is bool and default is False:
            names = (f"--{name.replace('_', '-')}",)  # a switch that is off has no --no-…
        return Annotated[kind, typer.Option(*names, help=about or self.about, **self.more)]


def option(
    *names: str,
    about: str = "",
    to: str = "",
    kind: Any = None,
    default: Any = ...,
    panel: str | None = None,
    **more: Any,
) -> Any:
    """An option, as its name and the type of its parameter do not tell."""
    return VerbOption(names, about, to, kind, default, more={**more, "rich_help_panel": panel} if panel else more)


def argument(metavar: str, *, about: str = "", to: str = "", kind: Any = None, default: Any = ..., **more: Any) -> Any:
    """A parameter that is given without a name."""
    return VerbOption((), about, to, kind, default, is_argument=True, more={"metavar": metavar, **more})


def _writable(out: Any) -> Any:
    """The place as it was given. One where nothing can be written is an error before the work, not after it."""
    if isinstance(out, Path):
        from visir.storage import check_place

        check_place(out)
    return out


_data, _compute, _output = (functools.partial(option, panel=panel) for panel in (DATA, COMPUTE, OUTPUT))

MODEL = "A model: a hub name, a checkpoint folder, st:…, openclip:…, pixels (visir models)."
PUBLISHED = "Published values: a JSON or TOML file, or the name of a table that comes with visir."
INDEX_KIND = "The kind of index (visir index kinds). Default: exact, and inverted for weighted words."
SEED = "Another seed draws anew."

OPTIONS: dict[str, VerbOption] = {
    "as_json": _output("--json", about="Print the result as JSON, and nothing else."),
    "batch": option(about="How many pairs a step compares with one another.", min=2),
    "batch_size": _compute(about="Inputs per forward pass. Default: the model's own.", kind=int, min=1, metavar="N"),
    "by": option(metavar="LABEL"),
    "captions": _data(about="Captions of each image that take part: all, first, 'first 5', 'random(seed=0)'."),
    "changes": option(
        "--set", about="Change one setting: --set optimiser.epochs=5. Repeatable.", kind=list[str], metavar="NAME=VALUE"
    ),
    "collection": argument(
        "COLLECTION",
        about="A file or folder in any known format, FORMAT:PATH, a folder of photos, or scenes:2000 (generated).",
    ),
    "compose": option(
        about="How a model composes a query of a text and an image: 'sum(0.5)', 0.5 of the text; text; image; "
        "'sum(val)', the best weight on that split. Default: the model's own way.",
        metavar="RULE",
        panel=PROTOCOL,
    ),
    "correction": option(
        about="For several tests at once: holm, bonferroni, bh or none.", autocompletion=complete_correction
    ),
    "count": option("--count", "-n", about="How many examples.", min=0),
    "data": option(
        "--data",
        about="A collection: pictures and captions to learn from, in any known format.",
        metavar="COLLECTION",
    ),
    "device": _compute(
        about="cpu, cuda, cuda:1, mps, …; openvino compiles for the CPU. Default: the best there is.",
        autocompletion=complete_device,
    ),
    "dry_run": option(about="Only print what would be done."),
    "dtype": _compute(about="Arithmetic of the forward pass: float32, bfloat16, float16; int8 with --device openvino."),
    "epochs": option(about="How often every caption, or every product, is seen.", min=1),
    "folds": option(about="How many folds.", min=1),
    "format": _data(
        "--format",
        "-f",
        about="The format, where it is not recognised (visir data formats).",
        autocompletion=complete_format,
    ),
    "gallery": option(about="The candidates: those of the split, or of the collection."),
    "image": option(about="Look for what fits this picture, instead of a text.", metavar="FILE"),
    "images": _data(
        "--images",
        "-i",
        about="Where the pictures are: a folder, zip or tar; 'none' for none. Repeatable.",
        kind=list[str],
        metavar="PLACE",
    ),
    "jobs": _compute(about="Processes side by side. Default: one per core.", min=1, metavar="N"),
    "judgements": _data(
        "--judgements",
        "-j",
        about="Judgements to attach: CxC, ECCV Caption, a qrels file, … Repeatable.",
        metavar="PLACE",
    ),
    "k": option("-k", about="How many answers.", min=1),
    "kind": option(about=INDEX_KIND, autocompletion=complete_index_kind),
    "latex": _output(about="Write the tables as LaTeX too, into this file.", metavar="FILE"),
    "measure": option(about="A measure: R@1, nDCG@10, MAP. Repeatable.", autocompletion=complete_measure),
    "memory": _compute(about="What the engine may hold in memory: 2GB."),
    "model": option("--model", "-m", about=MODEL, autocompletion=complete_model),
    "option": _data(
        "--option", about="An option of the format (visir data formats). Repeatable.", metavar="NAME=VALUE"
    ),
    "out": _output("--out", "-o", about="Where to write: a new folder.", callback=_writable),
    "pictures": option(about="Pictures: link leaves them in place, copy puts them into the folder, none drops them."),
    "published": option(about=PUBLISHED, autocompletion=complete_published),
    "queries": option(about="A file of queries, one a line: id, tab, text.", metavar="FILE"),
    "quiet": _output("--quiet", "-q", about="No progress, and no notes beside the result."),
    "recall": option(about="What R@k and rsum mean: hit, recall, capped_recall."),
    "recipe": argument(
        "RECIPE",
        about="A TOML file, or the name of a recipe that comes with visir (--list).",
        autocompletion=complete_recipe,
    ),
    "replace": _output(about="Replace results of visir in that folder, or the file of that name."),
    "resume": option(about="Go on with an interrupted training in that folder."),
    "search_device": _compute(
        about="Where vectors are searched: cuda, cuda:1, …; the numbers are the same. Default: the cores.",
        autocompletion=complete_device,
    ),
    "seed": option(about=SEED, min=0),
    "setting": option(
        "--set", about="Change one setting: --set ef-search=64. Repeatable.", kind=list[str], metavar="NAME=VALUE"
    ),
    "severity": option(about="How many characters or words are changed.", min=1),
    "shortcuts": _data(
        about="Synthetic shortcuts on pictures and captions: unique, bits:3, 'unique?on=images&seed=1'.",
        metavar="SPEC",
    ),
    "show": option("--list", about="List what comes with visir, and stop."),
    "skip_broken": _data(about="Set pictures aside that cannot be read, and count them.", kind=bool),
    "split": _data(about="The split: test; several: train+val. Default: everything.", autocompletion=complete_split),
    "split_by": option(
        about="How pictures are divided: “random(train=0.9, val=0.1, seed=0)”. Default: their splits.",
        metavar="RULE",
    ),
    "text": argument("[TEXT]", about="What to look for."),
    "threads": _compute(about="Threads. Default: one per core.", min=0, metavar="N"),
    "workers": _compute(about="Threads that decode pictures. Default: one per core.", kind=int, min=1, metavar="N"),
}
"""Options that several verbs have, by the name of their parameter."""

DryRunOption = OPTIONS["dry_run"].annotation("dry_run", bool, "", False)
JobsOption = OPTIONS["jobs"].annotation("jobs", int | None, "", None)


def out_option(what: str, **more: Any) -> Any:
    """The option `--out`, for an annotation of Typer."""
    return typer.Option("--out", "-o", help=f"Where to write: {what}.", **OPTIONS["out"].more, **more)


def name_value_pairs(
    assignments: list[str] | None, option: str = "--set", hint: str = "visir index kinds lists them"
) -> dict[str, Any]:
    """The values of a repeatable option NAME=VALUE, by name, with "_" for "-"."""
    from visir.options import parse_pairs

    pairs = parse_pairs(assignments or [], option, hint=hint)
    return {name.replace("-", "_"): value for name, value in pairs.items()}


def options_of(pairs: list[str] | None) -> dict[str, Any]:
    """The options of a format, from texts NAME=VALUE."""
    return name_value_pairs(pairs, "--option", "visir data formats lists them")


def single_or_all(values: list[str] | None) -> Any:
    """The value of an option that was given once; all values where it was repeated; None where it was not given."""
    return values[0] if values and len(values) == 1 else values or None


def command_line() -> str:
    """The command line of this process, so that a report says how to make it again."""
    return shlex.join(["visir", *sys.argv[1:]])


SERVICE = "Who may ask, how much, how fast"
"""Heading of the options of a service's front; every verb that serves has them."""
_service = functools.partial(option, panel=SERVICE)


def front(
    host: str = "127.0.0.1",
    port: Annotated[int, option(min=0, max=65535)] = 0,
    tokens: Annotated[Path | None, _service()] = None,
    open_to_all: Annotated[bool, _service("--no-tokens", "--open-to-all")] = False,
    allow_host: Annotated[list[str] | None, _service()] = None,
    allow_origin: Annotated[list[str] | None, _service()] = None,
    rate: Annotated[float, _service(min=0)] = 20.0,
    burst: Annotated[int, _service(min=1)] = 200,
    timeout: Annotated[float, _service(min=0.01)] = 30.0,
    max_body: Annotated[float, _service(min=0.01)] = 16.0,
    connections: Annotated[int, _service(min=1)] = 512,
    connections_per_address: Annotated[int, _service(min=0)] = 64,
    grace: Annotated[float, _service(min=0)] = 20.0,
    log_form: Annotated[str, option("--log", metavar="json|text")] = "auto",
) -> dict[str, Any]:
    """What every verb that serves asks for, by the names of `visir.serving.settings.FrontSettings`.

    Args:
        host: The address to listen on.
        port: 0 takes any that is free.
        tokens: The folder of tokens: who may do what.
        open_to_all: Let everybody in: serve on other addresses than loopback without tokens.
        allow_host: A name under which the service is called (repeatable).
        allow_origin: A web origin whose pages may ask (CORS; repeatable).
        rate: Requests a second for each caller; 0: no limit.
        burst: Requests that a caller may send at once.
        timeout: Seconds a request may take.
        max_body: MiB of one request.
        connections: Open at once.
        connections_per_address: Of them, from one address; 0, as behind a proxy: no limit. On loopback, none.
        grace: Seconds that running requests get after SIGTERM.
        log_form: Form of the log. Default: text on a terminal, else JSON.
    """
    settings = dict(locals())
    settings["hosts"], settings["origins"] = (tuple(settings.pop(f"allow_{name}") or ()) for name in ("host", "origin"))
    settings["body"] = int(settings.pop("max_body") * 2**20)
    return settings
