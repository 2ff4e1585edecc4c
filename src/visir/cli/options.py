"""Options and arguments that several verbs take: each is declared here, once, so that it is the same everywhere."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from visir.cli.completion import (
    complete_correction,
    complete_device,
    complete_format,
    complete_index_kind,
    complete_measure,
    complete_model,
    complete_published,
    complete_recipe,
    complete_split,
)

DATA, COMPUTE, OUTPUT = "Data", "Compute", "Output"
"""Headings of the help."""

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
    str | None, typer.Option("--model", "-m", help="A model: where that of the index lies now, if it was moved.")
]

SplitOption = Annotated[
    str | None,
    typer.Option(
        help="The split: test; several: train+val. Default: everything.",
        rich_help_panel=DATA,
        autocompletion=complete_split,
    ),
]
ImagesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--images",
        "-i",
        metavar="PLACE",
        help="Where the pictures are: a folder, zip or tar; 'none' for none. Repeatable.",
        rich_help_panel=DATA,
    ),
]
JudgementsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--judgements",
        "-j",
        metavar="PLACE",
        help="Judgements to attach: CxC, ECCV Caption, a qrels file, … Repeatable.",
        rich_help_panel=DATA,
    ),
]
FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        "-f",
        help="The format, where it is not recognised (visir data formats).",
        rich_help_panel=DATA,
        autocompletion=complete_format,
    ),
]
FormatOptionsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="NAME=VALUE",
        help="An option of the format (visir data formats). Repeatable.",
        rich_help_panel=DATA,
    ),
]
SkipBrokenOption = Annotated[
    bool,
    typer.Option("--skip-broken", help="Set pictures aside that cannot be read, and count them.", rich_help_panel=DATA),
]
CaptionsOption = Annotated[
    str,
    typer.Option(
        help="Captions of each image that take part: all, first, 'first 5', 'random(seed=0)'.", rich_help_panel=DATA
    ),
]
ShortcutsOption = Annotated[
    str | None,
    typer.Option(
        metavar="SPEC",
        help="Synthetic shortcuts on pictures and captions: unique, bits:3, 'unique?on=images&seed=1'.",
        rich_help_panel=DATA,
    ),
]
ShortcutsSpec = Annotated[
    str,
    typer.Option(
        metavar="SPEC",
        help="Synthetic shortcuts on pictures and captions: unique, or bits:3 for 2^3 numbers; behind it ?on=images "
        "(or captions), ?per=caption, ?digits=sklearn, ?placement=packed, ?seed=1, several joined by &.",
        rich_help_panel=DATA,
    ),
]

GalleryOption = Annotated[str, typer.Option(help="The candidates: those of the split, or of the collection.")]
RecallOption = Annotated[str, typer.Option(help="What R@k and rsum mean: hit, recall, capped_recall.")]
OptionalRecallOption = Annotated[
    str | None,
    typer.Option(
        help="What R@k and rsum mean: hit (default), recall (default of judgements alone), capped_recall.",
        show_default=False,
    ),
]
MeasureOption = Annotated[
    list[str] | None,
    typer.Option(help="A measure: R@1, nDCG@10, MAP. Repeatable.", autocompletion=complete_measure, show_default=False),
]
CorrectionOption = Annotated[
    str,
    typer.Option(help="For several tests at once: holm, bonferroni, bh or none.", autocompletion=complete_correction),
]
PublishedOption = Annotated[
    str | None,
    typer.Option(
        help="Published values: a JSON or TOML file, or the name of a table that comes with visir.",
        autocompletion=complete_published,
    ),
]
PublishedSystemOption = Annotated[str | None, typer.Option("--as", help="The system's name in the published table.")]
PublishedSystems = Annotated[
    list[str] | None,
    typer.Option("--as", help="The system's name in the published table: one for each result, in their order."),
]
PublishedCollectionOption = Annotated[
    str | None, typer.Option("--on", help="The collection's name in the published table.")
]
FoldsOption = Annotated[int, typer.Option(min=1, help="How many folds.")]

CountOption = Annotated[int, typer.Option("-k", min=1, help="How many answers.")]
ExamplesOption = Annotated[int, typer.Option("--count", "-n", min=0, help="How many examples.")]
KindOption = Annotated[
    str | None,
    typer.Option(
        help="The kind of index (visir index kinds). Default: exact, and inverted for weighted words.",
        autocompletion=complete_index_kind,
    ),
]
KindsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--kind",
        help="The kind of index (visir index kinds). Default: exact, and inverted for weighted words.",
        autocompletion=complete_index_kind,
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Change one setting: --set optimiser.epochs=5. Repeatable."),
]
IndexSetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Change one setting: --set ef-search=64. Repeatable."),
]
SeedOption = Annotated[int, typer.Option(min=0, help="Another seed draws anew.")]
SeverityOption = Annotated[int, typer.Option(min=1, help="How many characters or words are changed.")]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Go on with an interrupted training in that folder.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only print what would be done.")]
ListOption = Annotated[bool, typer.Option("--list", help="List what comes with visir, and stop.")]

DeviceOption = Annotated[
    str | None,
    typer.Option(
        help="cpu, cuda, cuda:1, mps, …; openvino compiles for the CPU. Default: the best there is.",
        rich_help_panel=COMPUTE,
        autocompletion=complete_device,
    ),
]
SearchDeviceOption = Annotated[
    str | None,
    typer.Option(
        help="Where vectors are searched: cuda, cuda:1, …; the numbers are the same. Default: the cores.",
        rich_help_panel=COMPUTE,
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
    str,
    typer.Option(
        help="Arithmetic of the forward pass: float32, bfloat16, float16; int8 with --device openvino.",
        rich_help_panel=COMPUTE,
    ),
]
BatchSizeOption = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", help="Inputs per forward pass. Default: the model's own.", rich_help_panel=COMPUTE
    ),
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", help="Threads that decode pictures. Default: one per core.", rich_help_panel=COMPUTE
    ),
]
JobsOption = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Processes side by side. Default: one per core.", rich_help_panel=COMPUTE),
]
ThreadsOption = Annotated[
    int | None, typer.Option(min=0, metavar="N", help="Threads. Default: one per core.", rich_help_panel=COMPUTE)
]
MemoryOption = Annotated[
    str | None, typer.Option(help="What the engine may hold in memory: 2GB.", rich_help_panel=COMPUTE)
]
ReplaceOption = Annotated[
    bool,
    typer.Option(
        "--replace", help="Replace results of visir in that folder, or the file of that name.", rich_help_panel=OUTPUT
    ),
]


def out_option(what: str, **more: Any) -> Any:
    """The option `--out`.

    Args:
        what: What is written: "a folder with the report".
        more: For `typer.Option`.
    """
    help = f"Where to write: {what}."
    return typer.Option("--out", "-o", help=help, rich_help_panel=OUTPUT, callback=_writable, **more)


def _writable(out: Any) -> Any:
    """The place as it was given. One where nothing can be written is an error before the work, not after it."""
    if isinstance(out, Path):
        from visir.storage import check_place

        check_place(out)
    return out


def name_option(whose: str, **more: Any) -> Any:
    """The option `--name`.

    Args:
        whose: What is named.
        more: For `typer.Option`.
    """
    return typer.Option("--name", help=f"A name: {whose}.", **more)


def pictures_option() -> Any:
    """The option `--pictures` of what writes a collection."""
    return typer.Option(
        "--pictures", help="Pictures: link leaves them in place, copy puts them into the folder, none drops them."
    )


NewFolder = Annotated[Path, out_option("a new folder", show_default=False)]


def name_value_pairs(
    assignments: list[str] | None, option: str = "--set", hint: str = "visir index kinds lists them"
) -> dict[str, Any]:
    """The values of a repeatable option NAME=VALUE, by name, with "_" for "-".

    Args:
        assignments: The texts as written.
        option: What the option is called, for errors.
        hint: Where the names are listed.

    Raises:
        ConfigurationError: Listing every text without a value, and every name that is given twice.

    Example:
        >>> name_value_pairs(["ef-search=64"])
        {'ef_search': '64'}
    """
    from visir.options import parse_pairs

    pairs = parse_pairs(assignments or [], option, hint=hint)
    return {name.replace("-", "_"): value for name, value in pairs.items()}


def options_of(pairs: list[str] | None) -> dict[str, Any]:
    """The options of a format, from texts NAME=VALUE."""
    return name_value_pairs(pairs, "--option", "visir data formats lists them")


def single_or_all(values: list[str] | None) -> Any:
    """The value of an option that was given once; all values where it was repeated; None where it was not given.

    Example:
        >>> single_or_all(["photos"]), single_or_all(["a.tar", "b.tar"]), single_or_all(None)
        ('photos', ['a.tar', 'b.tar'], None)
    """
    return values[0] if values and len(values) == 1 else values or None


def command_line() -> str:
    """The command line of this process, so that a report says how to make it again."""
    return shlex.join(["visir", *sys.argv[1:]])


SERVICE = "Who may ask, how much, how fast"
"""Heading of the options of a service's front; every verb that serves has them."""

HostOption = Annotated[str, typer.Option(help="The address to listen on.")]
PortOption = Annotated[int, typer.Option(min=0, max=65535, help="0 takes any that is free.")]


def _service_option(*names: str, **more: Any) -> Any:
    return typer.Option(*names, rich_help_panel=SERVICE, **more)


TokensOption = Annotated[Path | None, _service_option(help="The folder of tokens: who may do what.")]
OpenToAllOption = Annotated[
    bool,
    _service_option(
        "--no-tokens",
        "--open-to-all",
        help="Let everybody in: serve on other addresses than loopback without tokens.",
    ),
]
AllowHostOption = Annotated[
    list[str] | None,
    _service_option("--allow-host", help="A name under which the service is called (repeatable)."),
]
AllowOriginOption = Annotated[
    list[str] | None,
    _service_option("--allow-origin", help="A web origin whose pages may ask (CORS; repeatable)."),
]
RateOption = Annotated[float, _service_option(min=0, help="Requests a second for each caller; 0: no limit.")]
BurstOption = Annotated[int, _service_option(min=1, help="Requests that a caller may send at once.")]
TimeoutOption = Annotated[float, _service_option(min=0.01, help="Seconds a request may take.")]
MaxBodyOption = Annotated[float, _service_option(min=0.01, help="MiB of one request.")]
ConnectionsOption = Annotated[int, _service_option(min=1, help="Open at once.")]
ConnectionsPerAddressOption = Annotated[
    int,
    _service_option(min=0, help="Of them, from one address; 0, as behind a proxy: no limit. On loopback, none."),
]
GraceOption = Annotated[float, _service_option(min=0, help="Seconds that running requests get after SIGTERM.")]
LogFormOption = Annotated[
    str,
    typer.Option("--log", metavar="json|text", help="Form of the log. Default: text on a terminal, else JSON."),
]
