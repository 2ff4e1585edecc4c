"""How a reconstruction loss joins the contrastive one: as a second term, or as a constraint."""

from __future__ import annotations

from typing import Literal

Join = Literal["dual", "constraint"]
