"""Features of captions that say how detailed they are (brittleness paper, section 3)."""

from visir.robustness.granularity.features import FEATURES, PROFILES, CaptionFeature, Profile
from visir.robustness.granularity.granularity import Granularity, cut_captions, granularity

__all__ = ["FEATURES", "PROFILES", "CaptionFeature", "Granularity", "Profile", "cut_captions", "granularity"]
