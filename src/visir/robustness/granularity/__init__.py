"""Features of captions that say how detailed they are, one file each (brittleness paper, section 3)."""

from visir.robustness.granularity.granularity import Granularity, cut_captions, granularity
from visir.robustness.granularity.registry import FEATURES
from visir.robustness.granularity.tokens import PROFILES, CaptionFeature, Profile

__all__ = ["FEATURES", "PROFILES", "CaptionFeature", "Granularity", "Profile", "cut_captions", "granularity"]
