"""What `mkdocs build` does beyond Markdown: tables and pages from the code's registries, and tutorials that are run."""
