"""Stand-in for Lightning 2.x: see lightning.pytorch."""
