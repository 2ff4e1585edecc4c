"""Models and results as a folder for the Hugging Face Hub: weights, a model card, results with their protocol.

The folder is complete when it appears, and nothing leaves this machine before `HubFolder.upload` is called. Weights are
copied as they are. A tuned model of transformers is put together again, so that transformers reads it; its vectors are
compared with those of the checkpoint first.
"""

from __future__ import annotations

import math
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal

import orjson

from visir.display import counted
from visir.encoders import load
from visir.encoders.checkpoints import check_files
from visir.encoders.families import ADAPTER_FILE, CHECKPOINT_FILE, family_of
from visir.errors import ConfigurationError, EncoderError, VisirError, raise_faults, require
from visir.evaluation.results import Evaluation, load_evaluation
from visir.files import is_there, json_bytes, read_json, user_path
from visir.options import split_mark
from visir.reports.model_card import HUB_NAME, CardResult, Subject, card_text
from visir.storage import FileRecord, Manifest, check_new_folder, new_plain_folder
from visir.storage.disk import files_below
from visir.storage.scratch import PLAIN

if TYPE_CHECKING:
    from visir.encoders.base import Encoder

LEFT_OUT = ("steps.jsonl", "training.html", "tensorboard/*")
"""What a training writes for whoever runs it: it is no part of the model, and it names places of this machine."""
_PLAIN_FILES = ("*.json", "*.txt", "*.model", "*.spm", "*.jinja", "*.safetensors", "*.tiktoken", "*.md", "LICENSE*")
"""What a folder of another library is made of. Code and pickles are not taken along."""
_CODE = ("*.py", "*.pyc", "*.so", "*.pkl", "*.pickle", "*.pt", "*.pth", "*.bin", "*.ckpt", "*.joblib", "*.sh")
"""What can hold code, of a checkpoint, too: visir writes none of it."""
_FORMS = {"modules.json": "sentence-transformers", "open_clip_config.json": "open_clip", ADAPTER_FILE: "peft"}
_PART = {"name", "revision"}
"""What `save_part` writes of a model that is named."""
_STATED = {
    "license": r"[a-z0-9][a-z0-9.+-]*",
    "language": "[a-z]{2,3}|multilingual",
    "datasets": HUB_NAME,
    "base_model": HUB_NAME,
}
"""What is taken over from the head of another card, and the form that it must have."""
_PATH = re.compile(r"(~|[A-Za-z]:)?[/\\\\][^/\\\\\n]+[/\\\\]")
"""How a path begins that is one of this machine."""
Framework = Literal["auto", "visir", "transformers"]


@dataclass(frozen=True)
class HubFolder(os.PathLike[str]):
    """A folder that is ready for the Hub.

    Attributes:
        path: The folder.
        name: OWNER/NAME on the Hub; "" where none was given.
        notes: What to know before it is published: what was left out, what is not stated.
    """

    path: Path
    name: str = ""
    notes: tuple[str, ...] = ()

    @property
    def card(self) -> str:
        """The text of the model card; "" for results alone."""
        page = self.path / "README.md"
        return page.read_text(encoding="utf-8") if page.is_file() else ""

    @property
    def command(self) -> str:
        """The command of the Hub's own tool that uploads it."""
        name = self.name or "OWNER/NAME"
        return f"hf upload {name} {self.path} .{'' if self.card else ' --create-pr'}"

    def upload(self, name: str = "", *, private: bool = True) -> str:
        """Upload the folder: the only thing here that sends anything.

        The token is that of your environment (`hf auth login`, or the variable HF_TOKEN). Results without a card go to
        a model of others: they become a pull request.

        Args:
            name: OWNER/NAME; by default the one that it was exported for.
            private: Whether a repository that is not there yet is made for you alone.

        Returns:
            The address of the commit, or of the pull request.

        Raises:
            ConfigurationError: There is no name or no token, or the Hub refused it.
        """
        from huggingface_hub import HfApi, get_token

        name = name or self.name
        faults = [] if re.fullmatch(HUB_NAME, name) else [f"{name!r} is no name on the Hub (OWNER/NAME)"]
        faults += [] if get_token() else ["there is no token: hf auth login, or the variable HF_TOKEN"]
        raise_faults(ConfigurationError, f"{self.path}: not uploaded", faults, hint=self.command, code="not-uploaded")
        api = HfApi()
        try:
            if self.card:
                api.create_repo(name, private=private, exist_ok=True)
            message = "Model, card and results" if self.card else "Results with their protocol"
            done = api.upload_folder(
                folder_path=self.path, repo_id=name, commit_message=message, create_pr=not self.card
            )
        except Exception as fault:  # of the Hub, of its client, of the network: all of them leave the folder as it is
            reason = next((line for line in str(fault).splitlines() if line.strip()), type(fault).__name__)
            raise ConfigurationError(
                f"{self.path}: could not be uploaded to {name}: {reason}",
                hint=f"the folder is whole; when the Hub answers: {self.command}",
                code="not-uploaded",
            ) from fault
        return str(done.pr_url or done)

    def __fspath__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        return f"HubFolder({str(self.path)!r}): {counted(len(files_below(self.path)), 'files')}\n  {self.command}"


def export(
    model: str | os.PathLike[str],
    results: Sequence[str | os.PathLike[str] | Evaluation] | str | os.PathLike[str] | Evaluation = (),
    *,
    out: str | os.PathLike[str],
    repository: str = "",
    title: str = "",
    framework: Framework = "auto",
    base: str | Sequence[str] = (),
    licence: str = "",
    reads: str | Sequence[str] = (),
    trained_on: str | Sequence[str] = (),
    dataset: str | Sequence[str] = (),
    headline: str = "",
) -> HubFolder:
    """Write a model as a folder for the Hugging Face Hub: weights, a model card, results with their protocol.

    The model is loaded once, so that a folder that cannot be read is not published. Nothing is uploaded.

    Args:
        model: The folder of a model: what `visir.train`, `visir.sparsify` or a library wrote. A name on the Hub: its
            weights are there, so only the results are written, for a pull request.
        results: Evaluations, or their folders.
        out: A new folder.
        repository: OWNER/NAME: what the model will be called on the Hub.
        title: The heading; by default the name, or that of the folder.
        framework: Whose folder it becomes: "visir" (as it is), "transformers" (a tuned model of that library, put
            together again). "auto" takes the second where it can.
        base: What a model that lies in a folder of this machine is called on the Hub: "OWNER/NAME", or PATH=OWNER/NAME
            where there are several.
        licence: As the Hub spells it: "mit", "apache-2.0", "cc-by-4.0".
        reads: The languages of its texts: ISO 639 codes ("en", "de").
        trained_on: Names on the Hub of the data that it was trained on.
        dataset: Where the Hub has the data of results: COLLECTION=OWNER/NAME, or COLLECTION:TASK=OWNER/NAME:TASK_ID.
            Only of these are numbers written into `.eval_results`, from which the Hub makes its leaderboards.
        headline: The measure that stands in `.eval_results`, such as "nDCG@10"; by default the first of the card.

    Returns:
        The folder; `card` is its text, `command` uploads it, and so does `upload`.

    Raises:
        ConfigurationError: Options are wrong, or the model needs something of this machine; all is named at once.
        EncoderError: The model cannot be loaded.

    Example:
        >>> import visir
        >>> changes = {"epochs": 1, "batch": 16}
        >>> heads = visir.train("scenes-heads", data="scenes:50?size=64", out="heads", **changes)
        >>> measured = visir.evaluate("scenes:50?size=64", heads)
        >>> folder = visir.export(heads, measured, out="for-the-hub", repository="me/heads", licence="mit")
        >>> folder.card.splitlines()[1:4]
        ['library_name: visir', 'license: mit', 'pipeline_tag: feature-extraction']
    """
    require("huggingface_hub", extra="hub", purpose="model cards")
    if not isinstance(model, str | os.PathLike):
        raise ConfigurationError(
            f"a {type(model).__name__} is no folder of a model.",
            hint='visir.export("runs/mine", out="for-the-hub")',
            code="export-no-folder",
        )
    place, given = os.fspath(model), _several(results)
    name, languages, names = repository, _texts(reads), _texts(trained_on)
    faults = [
        f"{each!r} is no ISO 639 code (en, de)" for each in languages if not re.fullmatch(_STATED["language"], each)
    ]
    faults += [
        f"{each!r} is no name on the Hub (OWNER/NAME)"
        for each in filter(None, [name, *names])
        if not re.fullmatch(HUB_NAME, each)
    ]
    if licence and not re.fullmatch(_STATED["license"], licence):
        faults.append(f"{licence!r} is no licence as the Hub spells it (mit, apache-2.0, cc-by-4.0, other)")
    where, wrong = _datasets(_texts(dataset))
    raise_faults(
        ConfigurationError, "export", faults + wrong, hint="visir export MODEL --out FOLDER", code="export-options"
    )
    target = Path(out)
    check_new_folder(target, PLAIN)
    measured = list(_measured(given, where, headline))
    names_of_model = {place, Path(place).name, name, split_mark(place)[0]}
    others = dict.fromkeys(each.evaluation.system for each in measured if each.evaluation.system not in names_of_model)
    notes = [f"results of a system called {each!r}: is that this model?" for each in others]
    source = user_path(split_mark(place)[0])
    if not source.is_dir():
        return _results_alone(place, target, measured, notes)
    encoder = load(place)
    with new_plain_folder(target) as folder:
        written = _written(source, folder, encoder, framework, _texts(base), notes)
        heading = title or (name.partition("/")[2] or source.absolute().name)
        stated = _stated_on_card(source)
        subject = replace(
            written,
            name=name or f"OWNER/{heading}".replace(" ", "-"),
            title=heading,
            licence=licence or next(iter(stated.get("license", ())), ""),
            languages=tuple(languages or stated.get("language", ())),
            datasets=tuple(names or stated.get("datasets", ())),
            bases=written.bases or tuple(stated.get("base_model", ())),
        )
        unsaid = {"--licence": subject.licence, "--reads": subject.languages, "results": measured}
        notes += (
            [f"the card does not say: {', '.join(lacking)}"]
            if (lacking := [key for key in unsaid if not unsaid[key]])
            else []
        )
        notes += _write_results(folder, measured, name)
        (folder / "README.md").write_text(card_text(subject, measured), encoding="utf-8")
    return HubFolder(target, name, tuple(notes))


def _stated_on_card(source: Path) -> dict[str, Any]:
    """What the head of a model's own card says, as far as it is of the form that the Hub has; {} where it has none."""
    from huggingface_hub import ModelCard

    page = source / "README.md"
    if not page.is_file():
        return {}
    try:
        stated = ModelCard.load(page, ignore_metadata_errors=True).data.to_dict()
    except Exception:  # no head, or none that its own library can read: strangers write it
        return {}
    fit: dict[str, Any] = {}
    for key, form in _STATED.items():
        given = stated.get(key)
        fitting = [each for each in (given if isinstance(given, list) else [given]) if isinstance(each, str)]
        fit[key] = [each for each in fitting if re.fullmatch(form, each)]
    return fit


def _results_alone(model: str, out: Path, measured: Sequence[CardResult], notes: list[str]) -> HubFolder:
    """The results of a model whose weights the Hub has already."""
    family = family_of(model)
    name = model.removeprefix("st:")
    if not family.revisions or not re.fullmatch(HUB_NAME, split_mark(name)[0]):
        raise ConfigurationError(
            f"{model}: neither the folder of a model nor a name on the Hub.",
            hint="name a folder that visir train or save_pretrained wrote",
            code="nothing-to-export",
        )
    if not any(each.datasets for each in measured):
        lacks = "it is not said where the Hub has the data of its results" if measured else "there is no result for it"
        names = ", ".join(dict.fromkeys(each.evaluation.protocol.collection for each in measured)) or "COLLECTION"
        raise ConfigurationError(
            f"{model}: its weights are on the Hub, and {lacks}.",
            hint=f"{'' if measured else 'name results, and '}--dataset {names}=OWNER/NAME",
            code="nothing-to-export",
        )
    name = split_mark(name)[0]
    with new_plain_folder(out) as folder:
        notes += _write_results(folder, measured, name)
    return HubFolder(out, name, tuple(notes))


def _texts(given: str | Sequence[str]) -> list[str]:
    return [given] * bool(given) if isinstance(given, str) else list(given)


def _several(given: Any) -> list[Any]:
    return [given] if isinstance(given, (str, os.PathLike, Evaluation)) else list(given)


# Results.


def _datasets(given: Sequence[str]) -> tuple[dict[str, tuple[str, str]], list[str]]:
    """By "COLLECTION" or "COLLECTION:TASK": the data set and its task on the Hub; and what is wrong with the texts."""
    datasets, faults = {}, []
    for text in given:
        ours, _, theirs = text.partition("=")
        dataset, _, task = theirs.partition(":")
        if not ours or not re.fullmatch(HUB_NAME, dataset):
            faults.append(f"{text!r}: write COLLECTION=OWNER/NAME, or COLLECTION:TASK=OWNER/NAME:TASK_ID")
        datasets[ours] = (dataset, task)
    return datasets, faults


def _measured(given: Sequence[Any], where: Mapping[str, tuple[str, str]], measure: str) -> Iterator[CardResult]:
    """The results, opened, each with a name of its own for its files."""
    taken: set[str] = set()
    for item in given:
        evaluation = item if isinstance(item, Evaluation) else load_evaluation(item)
        protocol = evaluation.protocol
        word = re.sub(r"[^\w.-]+", "-", f"{protocol.collection}-{protocol.split or 'all'}").strip("-.")
        slug = next(slug for slug in (word, *(f"{word}-{n}" for n in range(2, 10_000))) if slug not in taken)
        taken.add(slug)
        datasets = {}
        for task in evaluation.tasks:
            if known := where.get(f"{protocol.collection}:{task}") or where.get(protocol.collection):
                datasets[task] = (known[0], known[1] or task)
        yield CardResult(evaluation, slug, datasets, measure)


def _write_results(folder: Path, measured: Sequence[CardResult], name: str) -> list[str]:
    """Write `.eval_results` and the results as visir has them; what to know of them."""
    import yaml
    from huggingface_hub import eval_result_entries_to_yaml

    notes = []
    for each in measured:
        target = folder / "results" / f"{each.slug}.json"
        target.parent.mkdir(exist_ok=True)
        # The protocol stays as it is: its hash names it. Where this was computed is of no use to others.
        about = each.evaluation.result.to_dict() | {"timing": {}, "origins": {}}
        target.write_bytes(json_bytes(about | {"system": _Names([], []).public(about["system"])}))
        if any(map(_PATH.match, _strings(about["protocol"]))):
            notes.append(f"results/{each.slug}.json: its protocol names a place of this machine")
        source = f"https://huggingface.co/{name}/blob/main/results/{each.slug}.json" if name else ""
        if entries := each.entries(source):
            (folder / ".eval_results").mkdir(exist_ok=True)
            text = yaml.safe_dump(eval_result_entries_to_yaml(entries), sort_keys=False, allow_unicode=True)
            (folder / ".eval_results" / f"{each.slug}.yaml").write_text(text, encoding="utf-8")
        else:
            collection = each.evaluation.protocol.collection
            notes.append(
                f"{collection}: in the card only; where the Hub has its data: --dataset {collection}=OWNER/NAME"
            )
    return notes


# The files of a model.


def _written(
    source: Path, folder: Path, encoder: Encoder, form: Framework, bases: Sequence[str], notes: list[str]
) -> Subject:
    """Write the files of a model into a folder that is empty; what they are."""
    is_own = (source / CHECKPOINT_FILE).is_file()
    training = read_json(source / CHECKPOINT_FILE)["content"].get("facts", {}) if is_own else {}
    subject = Subject("", "", encoder, "visir", training=training)
    whole = whole_model(encoder) if is_own and form != "visir" else "it is a folder of another library already"
    if form == "transformers" and isinstance(whole, str) and (is_own or _library_of(source) != "transformers"):
        raise ConfigurationError(
            f"{source}: cannot become a folder of transformers: {whole}.",
            hint='--framework visir writes it as it is (framework="visir" in Python)',
            code="not-of-transformers",
        )
    if not isinstance(whole, str):
        _write_whole(whole, folder, encoder)
        names = _Names([], bases, _origins(training))
        if (source / "recipe.toml").is_file():
            shutil.copyfile(source / "recipe.toml", folder / "recipe.toml")
        names.hide(folder, training)
        tuned = names.of_hub(_origins(training))
        return replace(subject, library="transformers", bases=tuned, training=names.plain(training))
    if not is_own:
        return _copied(source, folder, subject, bases, notes)
    contents: dict[Path, Manifest] = {}
    _copy_own(source, folder, contents, notes)
    needed = [name for each in contents.values() for name in _needed(each.content)]
    names = _Names(needed, bases, _origins(training))
    names.check(source)
    names.hide(folder, training)
    for path in sorted(contents, key=lambda path: -len(path.parts)):  # the innermost first: its file counts outside
        inside = [name for name in files_below(path.parent) if name != CHECKPOINT_FILE]
        records = {name: FileRecord.of(path.parent / name) for name in inside}
        path.write_bytes(replace(contents[path], content=names.plain(contents[path].content), files=records).to_bytes())
    hub = names.of_hub(needed)
    subfolder = next((name for name in ("adapter", "image_adapter", "text_adapter") if (folder / name).is_dir()), "")
    return replace(
        subject,
        bases=hub or names.of_hub(_origins(training)),
        adapts=bool(hub),
        subfolder=subfolder if hub else "",
        training=names.plain(training),
    )


def _copy_own(source: Path, target: Path, contents: dict[Path, Manifest], notes: list[str]) -> None:
    """Copy a checkpoint of visir, and into it those of this machine that it is built over."""
    check_files(source)
    manifest = Manifest.read(source)
    skipped = [name for name in manifest.files if _is_like(name, (*LEFT_OUT, *_CODE))]
    for name in (*manifest.files, CHECKPOINT_FILE):
        if name not in skipped:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / name, target / name)
    for path in sorted(target.rglob(CHECKPOINT_FILE)):
        if path not in contents:
            contents[path] = own = Manifest.read(path.parent)
            contents[path] = replace(own, content=_taken_along(own.content, path.parent, contents, notes))
    notes += [f"left out of {source}: {', '.join(skipped)}"] if skipped else []


def _taken_along(value: Any, folder: Path, contents: dict[Path, Manifest], notes: list[str]) -> Any:
    """A value of a `visir.json` whose bases that visir wrote lie in a folder beside it, not elsewhere here."""
    if isinstance(value, Mapping):
        place = Path(str(value["name"])) if set(value) == _PART else None
        if place is not None and (place / CHECKPOINT_FILE).is_file():
            name = next(name for name in ("base", *(f"base-{n}" for n in range(2, 99))) if not (folder / name).exists())
            notes.append(f"taken along, because it is built over it: {place}")
            _copy_own(place, folder / name, contents, notes)
            return {"folder": name}
        items = value.items()
        return {key: item if key == "facts" else _taken_along(item, folder, contents, notes) for key, item in items}
    return [_taken_along(item, folder, contents, notes) for item in value] if isinstance(value, list) else value


def _library_of(source: Path) -> str:
    return next((form for marker, form in _FORMS.items() if (source / marker).is_file()), "transformers")


def _copied(source: Path, folder: Path, subject: Subject, bases: Sequence[str], notes: list[str]) -> Subject:
    """A folder of another library, copied: its files of data, neither code nor pickles."""
    library = _library_of(source)
    files = [
        name
        for name in files_below(source)
        if _is_like(name, _PLAIN_FILES) and name != "README.md" and not re.search(r"(^|/)\.", name)
    ]
    leading = [f"{name} is a link to {(source / name).resolve()}" for name in files if _leads_out(source, name)]
    raise_faults(
        ConfigurationError,
        f"{source}: links that lead out of the folder are not published",
        leading,
        hint="put the files themselves there, if they belong to the model",
        code="links-not-published",
    )
    if not any(name.endswith(".safetensors") for name in files):
        raise ConfigurationError(
            f"{source}: its weights are no safetensors; files that can hold code are not published.",
            hint="load it in its own library, and save it again: save_pretrained writes safetensors",
            code="no-safetensors",
        )
    for name in files:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, target)
    left = sorted(set(files_below(source)) - set(files))
    notes += [f"left out: {', '.join(left[:5])}{', …' if len(left) > 5 else ''}"] if left else []
    needed = []
    if library == "peft":
        needed = [str(read_json(source / ADAPTER_FILE).get("base_model_name_or_path") or "")]
    public = _Names(needed, bases)
    public.check(source)
    public.hide(folder, {})
    for name in ("config.json", "tokenizer_config.json", "preprocessor_config.json", "processor_config.json"):
        if (folder / name).is_file() and (code := sorted(_strings(read_json(folder / name).get("auto_map")))):
            notes.append(f"{name} names code that is not in the folder: {', '.join(code)}")
    return replace(subject, library=library, bases=public.of_hub(needed), adapts=bool(needed))


def _is_like(name: str, patterns: Sequence[str]) -> bool:
    return any(PurePosixPath(name).match(pattern) for pattern in patterns)


def _leads_out(source: Path, name: str) -> bool:
    """Whether a file of a folder lies elsewhere; the Hub's cache, which has its files beside, is no elsewhere."""
    homes = [source.resolve()]
    if source.parent.name == "snapshots":
        homes.append((source.parent.parent / "blobs").resolve())
    return not any((source / name).resolve().is_relative_to(home) for home in homes)


# Names of other models and places of this machine, in the files of a checkpoint.


class _Names:
    """What local places are called in what is published: a base by its name on the Hub, data by the end of its path."""

    def __init__(self, needed: Sequence[str], given: Sequence[str], mentioned: Sequence[str] = ()) -> None:
        self._needed = list(dict.fromkeys(filter(None, needed)))
        self._models = {*self._needed, *mentioned}
        pairs = [text.partition("=") for text in given if _is_pair(text)]
        self._pairs = {str(user_path(place).absolute()): name for place, _, name in pairs}
        self._one = next((text for text in given if not _is_pair(text)), "")
        elsewhere = filter(None, (self._one, *self._pairs.values()))
        faults = [
            f"{name!r} lies on this machine; a name on the Hub is wanted" for name in elsewhere if local_place(name)
        ]
        raise_faults(ConfigurationError, "export", faults, hint="--base OWNER/NAME", code="export-options")

    def check(self, source: Path) -> None:
        """Raise `ConfigurationError` where the model needs one that only this machine has."""
        lacking = [name for name in self._needed if local_place(name) and not self._called(name)]
        raise_faults(
            ConfigurationError,
            f"{source}: it needs models that lie on this machine",
            [f"{name}: of no use to others" for name in lacking],
            hint="say what it is called on the Hub: --base OWNER/NAME; or, of adapters, a model of its own: "
            f"visir merge {source} --out FOLDER",
            code="base-on-this-machine",
        )

    def _called(self, name: str) -> str:
        place = local_place(name)
        return (self._pairs.get(str(Path(place).absolute())) or self._one) if place else ""

    def public(self, text: str) -> str:
        """A text of a file, as it is published: models by their names on the Hub, other paths by their last part."""
        if (text in self._models or _is_model(text)) and (called := self._called(text)):
            return called
        return Path(split_mark(text)[0]).name if _PATH.match(text) else text

    def plain(self, value: Any) -> Any:
        """A value of a file, with every text in it as it is published."""
        if isinstance(value, Mapping):
            return {key: self.plain(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.plain(item) for item in value]
        return self.public(value) if isinstance(value, str) else value

    def _without_places(self, value: Any) -> Any:
        """Settings with no path of this machine where libraries keep one: "_name_or_path", "tokenizer_file"."""
        if isinstance(value, list):
            return [self._without_places(item) for item in value]
        if not isinstance(value, dict):
            return value
        return {
            key: self.public(item)
            if isinstance(item, str) and key.endswith(("name_or_path", "_file", "_dir"))
            else self._without_places(item)
            for key, item in value.items()
        }

    def of_hub(self, names: Iterable[str]) -> tuple[str, ...]:
        """Those of the names that the Hub has, as it writes them."""
        bare = (split_mark(self.public(name))[0].removeprefix("st:") for name in names)
        return tuple(dict.fromkeys(name for name in bare if re.fullmatch(HUB_NAME, name) and not local_place(name)))

    def hide(self, folder: Path, training: Mapping[str, Any]) -> None:
        """Put the public names into the recipe, and into the settings that libraries write beside a model."""
        recipe = folder / "recipe.toml"
        if recipe.is_file():
            text = recipe.read_text(encoding="utf-8")
            for old in sorted(set(_strings(training.get("recipe", {}))), key=len, reverse=True):
                if (new := self.public(old)) != old:
                    text = text.replace(orjson.dumps(old).decode(), orjson.dumps(new).decode())
            recipe.write_text(text, encoding="utf-8")
        for path in folder.rglob(ADAPTER_FILE):
            settings = read_json(path)
            old = str(settings.get("base_model_name_or_path") or "")
            called = self._called(old) or (self._one if not re.fullmatch(HUB_NAME, old) else "")
            if called:
                settings |= {"base_model_name_or_path": split_mark(called)[0].removeprefix("st:"), "revision": None}
                path.write_bytes(json_bytes(settings))
        for path in folder.rglob("*config*.json"):
            settings = read_json(path)
            if (shown := self._without_places(settings)) != settings:
                path.write_bytes(json_bytes(shown))


def _is_pair(text: str) -> bool:
    """Whether a text is PATH=NAME, not a name with options."""
    place, sign, _ = text.partition("=")
    return bool(sign) and is_there(place)


def local_place(name: str) -> str:
    """The file or folder of this machine that a model's name speaks of; "" for none."""
    for text in (name, name.partition(":")[2]):
        place = split_mark(text)[0].partition("#")[0]
        if place and (is_there(place) or Path(place).is_absolute()):
            return place
    return ""


def _is_model(text: str) -> bool:
    """Whether a text is the path of a model's folder."""
    if not (_PATH.match(text) and (place := local_place(text)) and Path(place).is_dir()):
        return False
    try:
        return bool(family_of(place).marker)
    except VisirError:
        return False


def _needed(value: Any) -> Iterator[str]:
    """The models by name that a checkpoint is built over: what `save_part` wrote."""
    if isinstance(value, Mapping):
        if set(value) == _PART:
            yield str(value["name"])
        for key, item in value.items():
            if key != "facts":
                yield from _needed(item)
    elif isinstance(value, list):
        for item in value:
            yield from _needed(item)


def _origins(training: Mapping[str, Any]) -> list[str]:
    """The pretrained models that a training tuned."""
    recipe = training.get("recipe", {})
    sides = [recipe[side] for side in ("image", "text") if isinstance(recipe.get(side), Mapping)]
    return [
        str(side["encoder"])
        for side in sides
        if side.get("tower") == "pretrained" and isinstance(side.get("encoder"), str)
    ]


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


# A tuned model of transformers, put together again of its two towers.


@dataclass(frozen=True)
class WholeModel:
    """A model of transformers of which a checkpoint has both towers."""

    model: Any
    files: Mapping[str, bytes]  # its tokenizer and image processor


def whole_model(encoder: Any) -> WholeModel | str:
    """The model whose towers an encoder has; or why there is none, in words."""
    from visir.encoders.models.towers import SIDES, TowersEncoder
    from visir.encoders.towers.pretrained_backbone import PretrainedBackbone, random_weights

    if not isinstance(encoder, TowersEncoder):
        return f"it is of kind {encoder.card.family}"
    if encoder.prompts:
        return "it has learnt prompts, which transformers does not know"
    if any(encoder.towers[side].backbone is None for side in SIDES):
        return "its heads lie over a frozen model"
    backbones = [encoder.towers[side].backbone for side in SIDES]
    pretrained = [each for each in backbones if isinstance(each, PretrainedBackbone)]
    sides = [each for each in pretrained if each.reader.family == "transformers"]
    if len(sides) < len(SIDES):
        return "its towers are of no model of transformers"
    if any(each.adapter for each in sides):
        return "it has adapters; visir merge makes them part of the weights"
    if not all(encoder.towers[side].head.spec.identity for side in SIDES):
        return "it has heads of its own behind the towers"
    specs = [each.spec() for each in sides]
    [name, *others] = dict.fromkeys(str(spec.get("class")) for spec in specs)
    if others or any(spec.get("pooling") for spec in specs):
        return "its two towers are of different models"
    if specs[1].get("template", "{}") != "{}" or specs[1].get("max_length"):
        return "it reads texts in a template, or cut, which the files of transformers do not say"
    import transformers

    files: dict[str, bytes] = {}
    for each in sides:
        files |= each.files()
    kind = getattr(transformers, name)
    with random_weights():
        model = kind(kind.config_class.from_dict(orjson.loads(files.pop("config.json")))).eval()
    tensors = {key: value for each in sides for key, value in each.base_module().state_dict().items()}
    loaded = model.load_state_dict(tensors, strict=False)
    if others := [*loaded.unexpected_keys, *(set(loaded.missing_keys) - {"logit_scale", "logit_bias"})]:
        return f"its towers have other weights than {name}: {', '.join(others[:3])}"
    return WholeModel(_with_temperature(model, encoder), files)


def _with_temperature(model: Any, encoder: Any) -> Any:
    """The model with the temperature, and the bias, that the objective stood at."""
    temperature, bias = encoder.temperature, encoder.bias
    if temperature and hasattr(model, "logit_scale"):
        model.logit_scale.data.fill_(math.log(1 / temperature))
    if bias is not None and hasattr(model, "logit_bias"):
        model.logit_bias.data.fill_(bias)
    return model


_NEAR = 1e-5


def _write_whole(whole: WholeModel, folder: Path, encoder: Encoder) -> None:
    """Write a model of transformers, and compare its vectors with those of the checkpoint."""
    import numpy as np
    from PIL import Image

    whole.model.save_pretrained(folder)
    for name, data in whole.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    again = load(folder, device="cpu")
    colours = np.random.default_rng(0).integers(0, 256, (48, 67, 3), np.uint8)
    pairs = [
        (each.encode_images([Image.fromarray(colours)]), each.encode_texts(["a dog on a beach", ""]))
        for each in (encoder, again)
    ]
    for old, new in zip(*pairs, strict=True):
        apart = float(
            np.abs(np.asarray(old) - np.asarray(new)).max() / max(float(np.abs(np.asarray(old)).max()), 1e-30)
        )
        if not apart <= _NEAR:
            raise EncoderError(
                f"{folder}: as a folder of transformers it gives other vectors (by {apart:.1g}).",
                hint='--framework visir writes it as it is (framework="visir" in Python)',
                code="other-vectors",
            )
