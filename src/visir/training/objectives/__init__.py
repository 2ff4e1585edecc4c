"""Objectives: what training makes small. One file each; they take unit vectors and return one number."""
