"""Options and arguments that several verbs take: each is declared here, once, so that it is the same everywhere."""

from __future__ import annotations

import functools
import shlex
import sys
from collections.abc import Callable, Iterable
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
    """Published tables that come with visir: the names of their files."""
    from importlib.util import find_spec

    package = find_spec("visir.evaluation")
    folder = Path(((package and package.submodule_search_locations) or [""])[0]) / "published"
    yield from sorted({path.stem for path in folder.rglob("*.json")})
    yield from _files(incomplete, ".json", ".toml")


@completes
def complete_format(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Formats of collections."""
    from visir.collections.formats import FORMATS

    return FORMATS


@completes
def complete_measure(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Measures, those with a cutoff as "hit@"."""
    from visir.evaluation.measures.registry import DEFAULT_MEASURES, MEASURES

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


DATA, COMPUTE, OUTPUT = "Data", "Compute", "Output"
"""Headings of the help."""


def option(help: str, *names: str, panel: str | None = None, **more: Any) -> Any:
    """An option of these words, under a heading of the help."""
    return typer.Option(*names, help=help, rich_help_panel=panel, **more)


data_option, compute_option, output_option = (
    functools.partial(option, panel=panel) for panel in (DATA, COMPUTE, OUTPUT)
)

_SOURCE: Any = {
    "metavar": "COLLECTION",
    "help": "A file or folder in any known format, FORMAT:PATH, a folder of photos, or scenes:2000 (generated).",
    "show_default": False,
}
SourceArgument = Annotated[str, typer.Argument(**_SOURCE)]
OptionalSourceArgument = Annotated[str | None, typer.Argument(**_SOURCE)]
RecipeArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="RECIPE",
        help="A TOML file, or the name of a recipe that comes with visir (--list).",
        autocompletion=complete_recipe,
    ),
]

_MODEL: Any = {"autocompletion": complete_model, "show_default": False}
_MODEL_HELP = "A model: a hub name, a checkpoint folder, st:…, openclip:…, pixels (visir models)."
ModelOption = Annotated[str, typer.Option("--model", "-m", help=_MODEL_HELP, **_MODEL)]
OptionalModelOption = Annotated[str | None, typer.Option("--model", "-m", help=_MODEL_HELP, **_MODEL)]
ModelsOption = Annotated[list[str] | None, typer.Option("--model", "-m", help=f"{_MODEL_HELP} Repeatable.", **_MODEL)]
OwnModelOption = Annotated[
    str | None, option("A model: where that of the index lies now, if it was moved.", "--model", "-m")
]

SplitOption = Annotated[
    str | None, data_option("The split: test; several: train+val. Default: everything.", autocompletion=complete_split)
]
ImagesOption = Annotated[
    list[str] | None,
    data_option(
        "Where the pictures are: a folder, zip or tar; 'none' for none. Repeatable.", "--images", "-i", metavar="PLACE"
    ),
]
JudgementsOption = Annotated[
    list[str] | None,
    data_option(
        "Judgements to attach: CxC, ECCV Caption, a qrels file, … Repeatable.", "--judgements", "-j", metavar="PLACE"
    ),
]
FormatOption = Annotated[
    str | None,
    data_option(
        "The format, where it is not recognised (visir data formats).", "--format", "-f", autocompletion=complete_format
    ),
]
FormatOptionsOption = Annotated[
    list[str] | None,
    data_option("An option of the format (visir data formats). Repeatable.", "--option", metavar="NAME=VALUE"),
]
SkipBrokenOption = Annotated[
    bool, data_option("Set pictures aside that cannot be read, and count them.", "--skip-broken")
]
CaptionsOption = Annotated[
    str, data_option("Captions of each image that take part: all, first, 'first 5', 'random(seed=0)'.")
]
ShortcutsOption = Annotated[
    str | None,
    data_option(
        "Synthetic shortcuts on pictures and captions: unique, bits:3, 'unique?on=images&seed=1'.", metavar="SPEC"
    ),
]
ShortcutsSpec = Annotated[
    str,
    data_option(
        "Synthetic shortcuts on pictures and captions: unique, or bits:3 for 2^3 numbers; behind it ?on=images "
        "(or captions), ?per=caption, ?digits=sklearn, ?placement=packed, ?seed=1, several joined by &.",
        metavar="SPEC",
    ),
]

GalleryOption = Annotated[str, option("The candidates: those of the split, or of the collection.")]
RecallOption = Annotated[str, option("What R@k and rsum mean: hit, recall, capped_recall.")]
OptionalRecallOption = Annotated[
    str | None,
    option(
        "What R@k and rsum mean: hit (default), recall (default of judgements alone), capped_recall.",
        show_default=False,
    ),
]
MeasureOption = Annotated[
    list[str] | None,
    option("A measure: R@1, nDCG@10, MAP. Repeatable.", autocompletion=complete_measure, show_default=False),
]
CorrectionOption = Annotated[
    str, option("For several tests at once: holm, bonferroni, bh or none.", autocompletion=complete_correction)
]
PublishedOption = Annotated[
    str | None,
    option(
        "Published values: a JSON or TOML file, or the name of a table that comes with visir.",
        autocompletion=complete_published,
    ),
]
PublishedSystemOption = Annotated[str | None, option("The system's name in the published table.", "--as")]
PublishedSystems = Annotated[
    list[str] | None, option("The system's name in the published table: one for each result, in their order.", "--as")
]
PublishedCollectionOption = Annotated[str | None, option("The collection's name in the published table.", "--on")]
FoldsOption = Annotated[int, option("How many folds.", min=1)]

TextArgument = Annotated[str | None, typer.Argument(metavar="[TEXT]", help="What to look for.")]
PictureOption = Annotated[Path | None, option("Look for what fits this picture, instead of a text.", metavar="FILE")]
CountOption = Annotated[int, option("How many answers.", "-k", min=1)]
ExamplesOption = Annotated[int, option("How many examples.", "--count", "-n", min=0)]
KindOption = Annotated[
    str | None,
    option(
        "The kind of index (visir index kinds). Default: exact, and inverted for weighted words.",
        autocompletion=complete_index_kind,
    ),
]
KindsOption = Annotated[
    list[str] | None,
    option(
        "The kind of index (visir index kinds). Default: exact, and inverted for weighted words.",
        "--kind",
        autocompletion=complete_index_kind,
    ),
]
SetOption = Annotated[
    list[str] | None, option("Change one setting: --set optimiser.epochs=5. Repeatable.", "--set", metavar="NAME=VALUE")
]
IndexSetOption = Annotated[
    list[str] | None, option("Change one setting: --set ef-search=64. Repeatable.", "--set", metavar="NAME=VALUE")
]
SeedOption = Annotated[int, option("Another seed draws anew.", min=0)]
SeverityOption = Annotated[int, option("How many characters or words are changed.", min=1)]
ResumeOption = Annotated[bool, option("Go on with an interrupted training in that folder.", "--resume")]
DryRunOption = Annotated[bool, option("Only print what would be done.", "--dry-run")]
ListOption = Annotated[bool, option("List what comes with visir, and stop.", "--list")]

DeviceOption = Annotated[
    str | None,
    compute_option(
        "cpu, cuda, cuda:1, mps, …; openvino compiles for the CPU. Default: the best there is.",
        autocompletion=complete_device,
    ),
]
SearchDeviceOption = Annotated[
    str | None,
    compute_option(
        "Where vectors are searched: cuda, cuda:1, …; the numbers are the same. Default: the cores.",
        autocompletion=complete_device,
    ),
]
ComposeOption = Annotated[
    str | None,
    typer.Option(
        metavar="RULE",
        help="How a model composes a query of a text and an image: 'sum(0.5)', 0.5 of the text; text; image; "
        "'sum(val)', the best weight on that split. Default: the model's own way.",
        rich_help_panel="Protocol",
    ),
]
DtypeOption = Annotated[
    str, compute_option("Arithmetic of the forward pass: float32, bfloat16, float16; int8 with --device openvino.")
]
BatchSizeOption = Annotated[
    int | None, compute_option("Inputs per forward pass. Default: the model's own.", min=1, metavar="N")
]
WorkersOption = Annotated[
    int | None, compute_option("Threads that decode pictures. Default: one per core.", min=1, metavar="N")
]
JobsOption = Annotated[int | None, compute_option("Processes side by side. Default: one per core.", min=1, metavar="N")]
ThreadsOption = Annotated[int | None, compute_option("Threads. Default: one per core.", min=0, metavar="N")]
MemoryOption = Annotated[str | None, compute_option("What the engine may hold in memory: 2GB.")]
ReplaceOption = Annotated[
    bool, output_option("Replace results of visir in that folder, or the file of that name.", "--replace")
]


def out_option(what: str, **more: Any) -> Any:
    """The option `--out`."""
    help = f"Where to write: {what}."
    return typer.Option("--out", "-o", help=help, rich_help_panel=OUTPUT, callback=_writable, **more)


def _writable(out: Any) -> Any:
    """The place as it was given. One where nothing can be written is an error before the work, not after it."""
    if isinstance(out, Path):
        from visir.storage import check_place

        check_place(out)
    return out


def name_option(whose: str, **more: Any) -> Any:
    """The option `--name`."""
    return typer.Option("--name", help=f"A name: {whose}.", **more)


def pictures_option() -> Any:
    """The option `--pictures` of what writes a collection."""
    return typer.Option(
        "--pictures", help="Pictures: link leaves them in place, copy puts them into the folder, none drops them."
    )


NewFolder = Annotated[Path, out_option("a new folder", show_default=False)]


SHARED: dict[str, Any] = {
    "batch_size": BatchSizeOption,
    "captions": CaptionsOption,
    "collection": SourceArgument,
    "compose": ComposeOption,
    "correction": CorrectionOption,
    "device": DeviceOption,
    "dtype": DtypeOption,
    "folds": FoldsOption,
    "gallery": GalleryOption,
    "images": ImagesOption,
    "jobs": JobsOption,
    "k": CountOption,
    "measure": MeasureOption,
    "memory": MemoryOption,
    "model": ModelOption,
    "recall": RecallOption,
    "replace": ReplaceOption,
    "search_device": SearchDeviceOption,
    "seed": SeedOption,
    "severity": SeverityOption,
    "skip_broken": SkipBrokenOption,
    "split": SplitOption,
    "threads": ThreadsOption,
    "workers": WorkersOption,
}
"""Options by the name of their parameter, for verbs that are made of a function (`visir.cli.verbs`)."""


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


def _service_option(*names: str, **more: Any) -> Any:
    return typer.Option(*names, rich_help_panel=SERVICE, **more)


FRONT: dict[str, tuple[Any, Any]] = {
    "host": (Annotated[str, option("The address to listen on.")], "127.0.0.1"),
    "port": (Annotated[int, option("0 takes any that is free.", min=0, max=65535)], 0),
    "tokens": (Annotated[Path | None, _service_option(help="The folder of tokens: who may do what.")], None),
    "open_to_all": (
        Annotated[
            bool,
            _service_option(
                "--no-tokens",
                "--open-to-all",
                help="Let everybody in: serve on other addresses than loopback without tokens.",
            ),
        ],
        False,
    ),
    "allow_host": (
        Annotated[
            list[str] | None,
            _service_option("--allow-host", help="A name under which the service is called (repeatable)."),
        ],
        None,
    ),
    "allow_origin": (
        Annotated[
            list[str] | None,
            _service_option("--allow-origin", help="A web origin whose pages may ask (CORS; repeatable)."),
        ],
        None,
    ),
    "rate": (
        Annotated[float, _service_option(min=0, help="Requests a second for each caller; 0: no limit.")],
        20.0,
    ),
    "burst": (Annotated[int, _service_option(min=1, help="Requests that a caller may send at once.")], 200),
    "timeout": (Annotated[float, _service_option(min=0.01, help="Seconds a request may take.")], 30.0),
    "max_body": (Annotated[float, _service_option(min=0.01, help="MiB of one request.")], 16.0),
    "connections": (Annotated[int, _service_option(min=1, help="Open at once.")], 512),
    "connections_per_address": (
        Annotated[
            int,
            _service_option(
                min=0, help="Of them, from one address; 0, as behind a proxy: no limit. On loopback, none."
            ),
        ],
        64,
    ),
    "grace": (
        Annotated[float, _service_option(min=0, help="Seconds that running requests get after SIGTERM.")],
        20.0,
    ),
    "log_form": (
        Annotated[
            str,
            typer.Option("--log", metavar="json|text", help="Form of the log. Default: text on a terminal, else JSON."),
        ],
        "auto",
    ),
}
"""What every verb that serves asks for: by name the option and its default."""
