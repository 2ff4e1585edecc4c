"""Experiments, trend checks and drawings of chapter 6, on logs; registered in `visir.sessions.application`."""
