"""Objectives: what training makes small. They take pairs of unit vectors and give one number.

A new contrastive objective is a class in `infonce.py` and one name in its `Contrastive`; a new auxiliary one is a class
and one key of `Auxiliary` in `objective.py`.
"""

from __future__ import annotations

from visir.training.objectives.infonce import CosineSettings as CosineSettings
from visir.training.objectives.infonce import FILIPSettings as FILIPSettings
from visir.training.objectives.infonce import IFMSettings as IFMSettings
from visir.training.objectives.infonce import InfoNCESettings as InfoNCESettings
from visir.training.objectives.infonce import MultiPositiveSettings as MultiPositiveSettings
from visir.training.objectives.infonce import SigmoidSettings as SigmoidSettings
from visir.training.objectives.infonce import TripletSettings as TripletSettings
from visir.training.objectives.objective import Auxiliary as Auxiliary
from visir.training.objectives.objective import ITDSettings as ITDSettings
from visir.training.objectives.objective import LTDSettings as LTDSettings
