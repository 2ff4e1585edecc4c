"""CLIP-ITA and its variants: a head over category names, and a head over the modalities of products (section 7.3)."""
