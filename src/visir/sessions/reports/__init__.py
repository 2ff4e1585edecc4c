"""Reports of sessions: what distinguishes those that buy, and how well purchase is predicted."""
