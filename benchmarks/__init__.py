"""Ratios against a baseline of the same run: never times, which say more about the machine than about us."""
