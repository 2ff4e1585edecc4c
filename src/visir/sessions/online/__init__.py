"""Online evaluation: a log of decisions, and what it says at any time (`ab_test`)."""
