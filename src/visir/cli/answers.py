"""Answers of a search in a terminal, and as JSON.

A line for each: rank, score, and at its end where the picture is, so that a long path is never cut or broken by visir;
a terminal that knows links opens it with a click.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from visir.cli import output
from visir.terminal import one_line

_NAME = 28
"""Characters of a name; a longer one loses its middle."""


@dataclass(frozen=True)
class ShownAnswer:
    """One answer.

    Args:
        rank, score: Its place, and how well it fits.
        id: Of the image or the caption.
        place: Where the picture is, as it is written; "" for a caption.
        path: The picture's file, absolute; None where it is no file of its own.
        caption: The caption, or the first one of an image; "" for none.
        terms: The words that matched, with what each gave.
    """

    rank: int
    score: float
    id: str
    place: str = ""
    path: Path | None = None
    caption: str = ""
    terms: str = ""


def show_answers(title: str, side: str, answers: Sequence[ShownAnswer], *, unit: str = "score") -> None:
    """Print answers, best first.

    Args:
        title: What was looked for.
        side: "images" or "captions".
        answers: The answers.
        unit: What a score is: "cosine"; "" where there are none.
    """
    listed_answers = output.current().facts.setdefault("answers", [])
    listed_answers += [as_json(answer, side) for answer in answers]
    if output.wants_json():
        return
    from rich.text import Text

    console = output.console_of_verb()
    console.print(Text(one_line(title), style="bold"), soft_wrap=True)
    if not answers:
        if unit == "score":
            console.print("nothing found: no document shares a term with it")
        return
    names = [shortened(answer.id) if _says_more(answer) else "" for answer in answers]
    width = max(map(len, names))
    digits = len(str(answers[-1].rank))
    indent = " " * (digits + (11 if unit else 2))
    console.print(Text(f"{'':>{digits}}  {f'{unit:>7}  ' if unit else ''}{side[:-1]}", style="dim"))
    for answer, name in zip(answers, names, strict=True):
        line = Text(f"{answer.rank:>{digits}}  " + (f"{answer.score:>7.4f}  " if unit else ""))
        if width:
            line.append(f"{name:<{width}}  ")
        behind = answer.place or answer.caption
        line.append(one_line(behind), style=f"link {answer.path.as_uri()}" if answer.path else "")
        console.print(line, soft_wrap=True, highlight=False)
        for more in (answer.caption if answer.place else "", answer.terms and f"matched terms: {answer.terms}"):
            if more:
                console.print(Text(f"{indent}{one_line(more)}", style="dim"), soft_wrap=True)


def as_json(answer: ShownAnswer, side: str) -> dict[str, Any]:
    """An answer as `--json` has it."""
    fields_of_answer: dict[str, Any] = {"rank": answer.rank, "score": answer.score, "kind": side[:-1], "id": answer.id}
    if answer.place:
        fields_of_answer["path"] = answer.path or answer.place
    if answer.caption:
        fields_of_answer["caption"] = answer.caption
    if answer.terms:
        fields_of_answer["terms"] = answer.terms
    return fields_of_answer


def _says_more(answer: ShownAnswer) -> bool:
    """Whether the id is no part of the path, which names the picture already."""
    return not answer.place.endswith(answer.id)


def shortened(name: str, width: int = _NAME) -> str:
    """A name of at most so many characters, with its beginning and its end.

    Example:
        >>> shortened("dataset_flickr8k_image_0000017_caption_4.jpg", 20)
        'dataset_fl…ion_4.jpg'
    """
    name = one_line(name)
    if len(name) <= width:
        return name
    end = (width - 1) // 2
    return f"{name[: width - 1 - end]}…{name[len(name) - end :]}"
