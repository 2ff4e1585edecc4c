"""Statements about figures of the road that hold or do not; registered in `visir.papers.application`."""
