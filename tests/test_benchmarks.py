"""`make bench` lists benchmarks that are there and that run without an argument."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def listed() -> list[str]:
    """The names after `BENCHMARKS :=` in the Makefile."""
    names = re.search(r"^BENCHMARKS := ((?:.*\\\n)*.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert names is not None
    return names[1].replace("\\\n", " ").split()


def required(code: str) -> list[str]:
    """The arguments without which a script ends."""
    calls = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
    arguments = [call for call in calls if ast.unparse(call.func).endswith("add_argument")]
    faults = []
    for call in arguments:
        name = ast.unparse(call.args[0]).strip("f'\"")  # in quotes; a name may be put together from parts
        options = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
        optional = options.get("nargs") in ("'?'", "'*'") or name.startswith("-")
        if not optional or options.get("required") == "True":
            faults.append(name)
    return faults


def test_make_bench_lists_what_runs_without_an_argument() -> None:
    names = listed()
    assert len(names) > 15 and len(set(names)) == len(names)
    for name in names:
        code = (ROOT / "benchmarks" / f"{name}.py").read_text(encoding="utf-8")
        assert "__main__" in code, name
        assert required(code) == [], name


def test_required_arguments_are_seen() -> None:
    assert required("p.add_argument('model')\np.add_argument('--out', required=True)\np.add_argument('--n')") == [
        "model",
        "--out",
    ]
