"""Every verb: one option for one thing, examples that its own parser reads, JSON alone, help without heavy packages."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import visir
from verbs import say
from visir.cli import output
from visir.cli.main import app
from visir.cli.options import (
    complete_index_kind,
    complete_published,
    complete_recipe,
    complete_result,
    complete_split,
)
from visir.cli.verbs import FORMER, PURPOSES, every_verb

ROOT = typer.main.get_command(app)
STREAMS = {"demo", "library serve", "library watch", "sessions score", "sessions serve"}
"""Verbs that print while they run, or run others."""


def verbs(command: Any = ROOT, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    below = getattr(command, "commands", None)
    if below is None:
        yield " ".join(path), command
        return
    for name, command_below in below.items():
        yield from verbs(command_below, (*path, name))


VERBS = dict(verbs())


def options() -> Iterator[tuple[str, str, Any]]:
    """(verb, option, parameter) of everything that can be given."""
    for verb, command in VERBS.items():
        for parameter in command.params:
            if parameter.param_type_name == "option" and parameter.name != "help":
                yield verb, max(parameter.opts, key=len), parameter


def clause(text: str) -> str:
    """What an option is for: the words before the first mark."""
    for mark in ".:;,(":
        text = text.partition(mark)[0]
    return text.strip()


def test_one_option_has_one_short_form_one_shape_and_one_meaning() -> None:
    spellings, meanings, longs = defaultdict(set), defaultdict(set), defaultdict(set)
    for _, option, parameter in options():
        spellings[option].add((tuple(parameter.opts), bool(parameter.is_flag)))
        meanings[option].add(clause(parameter.help or ""))
        for short in parameter.opts:
            longs[short].add(option)
    assert {name: spelled for name, spelled in spellings.items() if len(spelled) > 1} == {}
    assert {name: meant for name, meant in meanings.items() if len(meant) > 1} == {}
    assert {name: meant for name, meant in longs.items() if len(meant) > 1} == {}


def test_every_verb_prints_json_and_can_be_quiet() -> None:
    for verb, command in VERBS.items():
        given = {name for parameter in command.params for name in parameter.opts}
        assert ({"--json", "--quiet", "-q"} <= given) == (verb not in STREAMS), verb
    assert all(parameter.help for _, _, parameter in options())


STUDIES = (
    "evaluate", "compare", "explain", "stress", "classify", "profile", "probe", "granularity", "truncation",
    "products evaluate", "sessions describe", "sessions ab-test", "shortcuts audit", "sessions predict", "report",
    "publish",
)  # fmt: skip
"""Verbs that return a report: each has `--json`, `--out`, `--replace` and `--latex`."""
GOES_ON = {
    "shortcuts audit", "sessions predict", "train", "sparsify", "products train", "library make", "demo", "papers run",
}  # fmt: skip
"""Verbs without `--replace`: with the same `--out` they go on, or bring up to date."""
LOOKS_AT = {"papers list", "papers compare", "papers report"}
"""Verbs whose `--out` says where studies are."""
NEW_ONLY = {"index build", "export", "merge", "explain-vector", "products infer", "products judgements"}
"""Verbs that write a new place only, and never over what is there."""


def test_verbs_that_return_a_report_behave_alike() -> None:
    given = {verb: {name for item in command.params for name in item.opts} for verb, command in VERBS.items()}
    assert {verb for verb, names in given.items() if "--latex" in names} == set(STUDIES)
    for verb in STUDIES:
        assert {"--json", "--out", "--latex"} <= given[verb], verb
    writes = {verb for verb, names in given.items() if "--out" in names}
    assert {verb for verb in writes if "--replace" not in given[verb]} == GOES_ON | LOOKS_AT | NEW_ONLY
    assert {verb for verb in given if "--replace" in given[verb]} - writes == {"data convert"}, (
        "its place is an argument"
    )


@pytest.mark.parametrize(
    "line",
    [
        "truncation scenes:8?size=64 --model bow:32 --count-only",
        "explain --published R@1=37.82,R@5=82.36 --on Flickr30k",
        "granularity scenes:8?size=64",
        "products evaluate generated:60 --folds 2 --fold 1",
    ],
)
def test_a_report_goes_to_a_folder_a_page_and_latex(line: str, tmp_path: Path) -> None:
    run, folder, latex = CliRunner(), tmp_path / "report", tmp_path / "tables.tex"
    more = ["--out", str(folder), "--latex", str(latex), "--json"]
    first = run.invoke(app, [*line.split(), *more])
    assert first.exit_code == 0 and json.loads(first.stdout), first.output
    assert "\\toprule" in latex.read_text() and visir.open(folder).tables
    again = run.invoke(app, [*line.split(), "--out", str(folder)])
    assert again.exit_code != 0 and "--replace" in str(again.exception) and not again.stdout
    assert "--replace" in str(run.invoke(app, [*line.split(), "--latex", str(latex)]).exception)
    assert run.invoke(app, [*line.split(), *more, "--replace"]).exit_code == 0


def test_examples_are_read_by_the_verbs_own_parser() -> None:
    shown = 0
    for verb, command in VERBS.items():
        for line in (command.help or "").splitlines():
            if line.startswith("$ "):
                words = shlex.split(line)[2:]
                assert words[: len(verb.split())] == verb.split(), line
                command.make_context(verb, words[len(verb.split()) :])
                shown += 1
    assert shown >= 30


@pytest.mark.parametrize(
    "command",
    [
        "data inspect scenes:6?size=64",
        "data check scenes:6?size=64",
        "data formats",
        "index kinds",
        "perturb --list",
        "train --list",
        "search scenes:6?size=64 dog --model bow:32 --to captions -k 2",
        "evaluate scenes:6?size=64 --model bow:32 --task i2t --relevance nothing",
    ],
)
def test_json_is_all_that_is_printed(command: str) -> None:
    ran = CliRunner().invoke(app, [*command.split(), "--json"], env={"COLUMNS": "60"})
    if "nothing" in command:
        assert ran.stdout == "" and ran.exception is not None
        return
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout) and "\x1b" not in ran.stdout


def test_names_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context: Any = typer.main.get_command(app).make_context("visir", ["doctor"], resilient_parsing=True)
    assert "inverted" in complete_index_kind(context, "inv")
    assert "brittleness-table-2" in complete_published(context, "brit")
    context.info_name = "train"
    assert "scenes-heads" in complete_recipe(context, "scenes-")
    context.params["collection"] = "scenes:20?size=64"
    assert complete_split(context, "train+v") == ["train+val"]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    assert complete_result(context, "res") == ["results/"]


def test_a_large_file_is_not_opened_to_complete_its_splits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context: Any = typer.main.get_command(app).make_context("visir", ["doctor"], resilient_parsing=True)
    file = tmp_path / "table.csv"
    file.write_text("image,caption,split\na.jpg,a dog,held-out\n")
    context.params["collection"] = str(file)
    assert complete_split(context, "") == ["held-out"]
    monkeypatch.setattr("visir.cli.options.LARGEST", 10)
    assert complete_split(context, "") == ["train", "val", "test"]


def test_the_shell_asks_visir_and_gets_names_without_torch() -> None:
    code = (
        "import sys; from visir.cli.main import app\n"
        "try: app(prog_name='visir')\nfinally: print('torch' in sys.modules, file=sys.stderr)"
    )
    asked_for = {"_VISIR_COMPLETE": "complete_bash", "COMP_WORDS": "visir index build x --kind inv", "COMP_CWORD": "5"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **asked_for},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["inverted"] and done.stderr.strip().endswith("False"), done.stderr


def test_what_is_no_command_is_answered_with_what_was_meant(tmp_path: Path) -> None:
    for words, told in (
        (["evaluat"], "did you mean: visir evaluate?"),
        (["make"], "did you mean: visir library make?"),
        (["library", "serv"], "did you mean: visir library serve?"),
        ([str(tmp_path)], "is a place, not a command"),
    ):
        fault = CliRunner().invoke(app, words).exception
        assert told in str(fault), fault


def test_earlier_spellings_work_and_are_listed_nowhere(tmp_path: Path) -> None:
    run = CliRunner()
    for former, now in FORMER.items():
        old, new = (run.invoke(app, [*line.split(), "--help"]).output for line in (former, now))
        assert old.replace(f"visir {former}", f"visir {now}").split() == new.split() != [], former
        assert f"visir {former}" not in dict(every_verb(ROOT))
    assert not re.search(r"^  search ", run.invoke(app, ["library"]).output, re.MULTILINE)
    assert "there is no command visir data search" in str(run.invoke(app, ["data", "search"]).exception)
    convert = ["data", "convert", "scenes:4?size=64", str(tmp_path / "scenes")]
    assert run.invoke(app, convert).exit_code == run.invoke(app, [*convert, "--force"]).exit_code == 0
    assert "--force" not in {option for _, option, _ in options()}


def test_a_verb_is_imported_and_built_when_somebody_looks_at_it() -> None:
    code = (
        "import sys; from visir.cli.main import app; from visir.cli import verbs\n"
        "built, real = [], verbs.verb\n"
        "verbs.verb = lambda function: built.append(function.__name__) or real(function)\n"
        "try: app(sys.argv[1:], prog_name='visir')\n"
        "finally: print(built, 'visir.library.cli.serve' in sys.modules, file=sys.stderr)"
    )
    for line, told in (
        ("--help", "[] True"),
        ("data --help", "[] False"),
        ("evaluate --help", "['evaluate'] False"),
        ("research index kinds --json", "['kinds_command'] False"),
    ):
        done = subprocess.run([sys.executable, "-c", code, *line.split()], capture_output=True, text=True, check=False)
        assert done.stderr.strip() == told, (line, done.stderr)
    named = {"_VISIR_COMPLETE": "complete_bash", "COMP_WORDS": "visir ev", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **named}, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["evaluate"] and done.stderr.strip() == "[] False"


def test_without_arguments_there_are_three_commands_to_try() -> None:
    shown = CliRunner().invoke(app, []).output
    assert shown.count("\n  visir ") == 3 and "visir doctor" in shown and max(map(len, shown.splitlines())) <= 90


def test_the_first_page_has_few_entries_and_a_word_finds_the_others() -> None:
    run = CliRunner()
    entries = [line for line in run.invoke(app, ["--help"]).output.splitlines() if re.match(r"  \w", line)]
    names = {line.split()[0] for line in entries}
    assert {"library", "evaluate", "train", "research", "shop", "papers"} <= names and len(names) <= 14, names
    for name, command in ROOT.commands.items():
        answer = run.invoke(app, ["help", name, "--json"])
        assert f"visir {name}" in [entry["command"] for entry in json.loads(answer.output)]
        if name not in {*names, "help", "demo"}:  # of these two the last line tells
            shelf = next(shelf for shelf in ("research", "shop") if f"\n  {name} " in run.invoke(app, [shelf]).output)
            below = run.invoke(app, [shelf, name, "--help"]).output
            assert command.help.partition("\n")[0] in " ".join(below.split()), below
    assert "visir index build" in run.invoke(app, ["help", "index", "parts"]).output
    assert "no command has zyx" in str(run.invoke(app, ["help", "zyx"]).exception)


@pytest.mark.parametrize(
    ("words", "verb"),
    [
        ("find my photos", "search"), ("fine tune", "train"), ("lora", "train"), ("significance test", "compare"),
        ("confidence interval", "compare"), ("robustness", "stress"), ("typos", "stress"), ("noise", "stress"),
        ("mrr", "evaluate"), ("album", "library make"), ("a/b test", "sessions ab-test"), ("gpu", "train"),
        ("website", "library serve"), ("pdf", "report"), ("ranx", "compare"), ("huggingface", "models"),
        ("conversion", "sessions predict"), ("results", "report"),
    ],
)  # fmt: skip
def test_a_verb_is_found_by_the_words_of_those_who_need_it(words: str, verb: str) -> None:
    answer = CliRunner().invoke(app, ["help", *words.split(), "--json"])
    assert f"visir {verb}" in [entry["command"] for entry in json.loads(answer.output)][:4], answer.output


def test_purposes_are_of_verbs_that_there_are_and_words_match_from_their_beginning() -> None:
    assert set(PURPOSES) <= set(VERBS)
    listed = json.loads(CliRunner().invoke(app, ["help", "tag", "--json"]).output)
    assert listed[0]["command"] == "visir classify"  # not those with "stage" in their help
    some = CliRunner().invoke(app, ["help", "photos", "zyx"])
    assert some.exit_code == 0 and "these have most" in some.output


@pytest.mark.parametrize("columns", ["80", "120"])
def test_help_fits_the_terminal(columns: str) -> None:
    for verb in VERBS:
        shown = CliRunner().invoke(app, [*verb.split(), "--help"], env={"COLUMNS": columns, "TERM": "dumb"}).output
        text = [line for line in shown.splitlines() if not line.startswith("  $ visir ")]
        assert max(map(len, text)) <= int(columns), verb


def test_quiet_leaves_notes_out_and_json_leaves_only_the_value() -> None:
    def told(name: str) -> None:
        output.line(f"hello {name}")
        output.note("a note")

    assert say(told, "anna").text == "hello anna\na note\n"
    assert say(told, "anna", "--quiet").text == "hello anna\n"
    assert say(told, "anna", "--json").json == {"lines": ["hello anna"]}
