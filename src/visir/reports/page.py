"""A page: one HTML file from a template and its values, with nothing fetched from anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from visir.files import write_bytes


def write_page(path: str | Path, template: str, **values: Any) -> Path:
    """Fill a template of `visir/reports/templates` and write it; every value is escaped unless the template says safe.

    The same values give the same bytes.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("visir.reports", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    write_bytes(path, environment.get_template(template).render(**values).encode("utf-8"))
    return Path(path)
