"""What studies of chapter 6 do with logs: acts, shapes and drawings, registered in `visir.sessions.application`."""
