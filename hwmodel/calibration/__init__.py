"""Measured rows with their sources, and what was fitted to them."""
