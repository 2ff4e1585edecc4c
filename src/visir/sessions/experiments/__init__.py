"""What studies of chapter 6 compute from logs, registered in `visir.sessions.application`."""
