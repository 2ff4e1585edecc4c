"""The page on the fields of a protocol: what each is, why it matters, and an example, as their declarations say."""

from __future__ import annotations


def page() -> dict[str, str]:
    """Path → Markdown."""
    from visir.records.result import PROTOCOL

    parts = [
        "# Fields of a protocol",
        "Every result of visir carries a *protocol*: what was searched, with which queries, and how it was measured. "
        "`visir evaluate` prints it below the table; `result.protocol` holds it in Python.",
        "**Two results are compared only if all fields of the task are equal.** The fields of the system may differ: "
        "they are shown because they explain differences. The last line of the card, `protocol`, is a hash over the fields of "
        "the task: equal hashes mean that two numbers may be compared.",
        "## Fields of the task",
        *(_entry(name) for name, about in PROTOCOL.items() if not about.of_system),
        "## Fields of the system",
        *(_entry(name) for name, about in PROTOCOL.items() if about.of_system),
    ]
    return {"reference/protocol.md": "\n\n".join(parts) + "\n"}


def _entry(name: str) -> str:
    from visir.records.result import PROTOCOL

    about = PROTOCOL[name]
    parts = [f"### {name}", about.what, f"**Why it matters.** {about.why}"]
    if about.choices:
        option = f"`--{(about.option or name).replace('_', '-')}`"
        parts.append(
            "\n".join(
                [f"**Choices of {option}.**", "", *(f"- `{key}`: {words}" for key, words in about.choices.items())]
            )
        )
    if about.is_condition:
        parts.append(f"**Set by** `conditions={{{name!r}: …}}`, where only the caller knows it.")
    return "\n\n".join([*parts, f"**Example.** {about.example}"])
