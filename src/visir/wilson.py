"""Wilson's interval of a share (1927)."""

from math import sqrt


def wilson(p: float, n: float, z: float) -> tuple[float, float]:
    """Wilson's interval of a share; it stays in [0, 1] and is never a point."""
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return min(p, max(0.0, middle - half)), max(p, min(1.0, middle + half))
