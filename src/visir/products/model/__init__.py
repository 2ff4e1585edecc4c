"""CLIP-ITA and its kin: a head over category names and one over what is known of products (thesis section 7.3)."""
