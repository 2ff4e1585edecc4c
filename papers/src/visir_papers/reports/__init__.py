"""Reports of studies: the page of all tables, and their files."""
