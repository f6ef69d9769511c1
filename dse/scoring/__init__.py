"""Scoring: knob indices in, metrics out, through one compiled function per model skeleton."""
