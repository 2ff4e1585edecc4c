"""The front of every HTTP service of visir: who is let in, how much, how fast. Applications put it before their own."""
