"""Nothing but `visir.stats` computes an interval or a p-value: the signs of it stand in no other file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import visir
import visir_papers

SOURCES = (Path(visir.__file__).parent, Path(visir_papers.__file__).parent)
DISTRIBUTIONS = {
    *("ndtr", "ndtri", "stdtr", "stdtrit", "chdtr", "chdtri", "chdtrc", "bdtr", "bdtri", "btdtri", "fdtr", "fdtri"),
    *("betainc", "betaincinv", "gammainc", "gammaincinv", "erf", "erfinv", "gammaln", "binom", "log_ndtr"),
}
"""Functions of `scipy.special` that give quantiles and tails."""
QUANTILES = {"quantile", "percentile", "nanquantile", "nanpercentile"}
TAILS = {"ppf", "isf", "sf", "pvalue", "cdf", "NormalDist"}
WORDS = {"wilson", "bootstrap", "jackknife", "clopper", "ttest", "p_value", "confidence_interval", "standard_error"}

NO_STATISTICS = {
    "visir/library/facets.py": "quantiles are the borders of ranges of prices that hold equally many",
    "visir/retrieval/multi_vector/compression.py": "quantiles are the steps to which vectors are rounded",
    "visir/sessions/prediction/models.py": "a quantile of times divides earlier from later sessions",
    "visir/sessions/prediction/training.py": "a quantile of times divides earlier from later sessions",
}
"""Files with a sign that is none, and what it is."""


def signs(text: str) -> Iterator[str]:
    """What in a file looks like an interval or a test."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = {alias.name for alias in node.names}
            if node.module.startswith(("scipy.stats", "statsmodels")) or (
                node.module == "scipy" and names & {"stats", "special"}
            ):
                yield f"imports {node.module}"
            if node.module == "scipy.special" and names & DISTRIBUTIONS:
                yield f"imports {', '.join(sorted(names & DISTRIBUTIONS))}"
        elif isinstance(node, ast.Import) and any(
            alias.name.startswith(("scipy.stats", "scipy.special", "statsmodels")) for alias in node.names
        ):
            yield "imports scipy.stats or its like"
        elif isinstance(node, ast.Attribute) and node.attr in TAILS:
            yield f".{node.attr}"
        elif isinstance(node, ast.Attribute) and node.attr in QUANTILES and ast.unparse(node.value) in {"np", "numpy"}:
            yield f"np.{node.attr}"
        elif isinstance(node, ast.FunctionDef) and any(word in node.name for word in WORDS):
            yield f"def {node.name}"
        elif isinstance(node, ast.Constant) and isinstance(node.value, float) and 1.9599 <= node.value <= 1.96:
            yield f"{node.value}"
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and _is_spread(node.left):
            yield "a standard deviation or variance divided: a standard error"


def _is_spread(node: ast.expr) -> bool:
    """Whether it is `x.std(ddof=1)` or `np.var(x, ddof=1)`, also times something, or its root."""
    return any(
        isinstance(part, ast.Call)
        and isinstance(part.func, ast.Attribute)
        and part.func.attr in {"std", "var"}
        and any(keyword.arg == "ddof" for keyword in part.keywords)
        for part in ast.walk(node)
    )


FILES = {
    path.relative_to(source.parent).as_posix(): path
    for source in SOURCES
    for path in source.rglob("*.py")
    if path.relative_to(source.parent).parts[:2] != ("visir", "stats")
}


def test_nothing_else_computes_an_interval_or_a_p_value() -> None:
    found = {name: sorted(set(signs(path.read_text(encoding="utf-8")))) for name, path in FILES.items()}
    found = {name: some for name, some in found.items() if some and name not in NO_STATISTICS}
    assert found == {}, "call visir.stats; if it is no statistics, say in NO_STATISTICS what it is"


@pytest.mark.parametrize("name", NO_STATISTICS)
def test_what_is_excepted_is_still_there(name: str) -> None:
    seen = list(signs(FILES[name].read_text(encoding="utf-8")))
    assert seen and all(sign.endswith(tuple(QUANTILES)) for sign in seen)


@pytest.mark.parametrize(
    "code",
    [
        "from scipy.stats import t",
        "from scipy import stats",
        "import scipy.stats as st",
        "from scipy.special import expit, ndtri",
        "low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])",
        "np.percentile(draws, 2.5)",
        "half = 1.96 * error",
        "half = student.ppf(0.975, n - 1)",
        "def wilson_interval(p, n): ...",
        "error = values.std(ddof=1) / n**0.5",
        "error = np.sqrt(np.var(values, ddof=1) / n)",
    ],
)
def test_a_sign_is_seen(code: str) -> None:
    assert list(signs(code))


def test_stats_knows_nothing_of_visir_but_its_errors() -> None:
    imported = {
        node.module
        for path in (SOURCES[0] / "stats").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("visir")
    }
    assert {module for module in imported if not (module or "").startswith("visir.stats")} == {"visir.errors"}
