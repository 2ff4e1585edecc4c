"""What a figure of the road shows, as sentences that come out or do not; registered in `visir.papers.application`."""
