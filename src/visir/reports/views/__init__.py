"""How records look in notebooks: one file a record. `visir.display` says what a view may have, and finds it by name."""
