"""Online evaluation: a log of decisions (`decisions`), and what it says at any time (`sequential`, `ab_test`)."""
