"""Training steps at the analytical rung: one optimizer step to its metrics."""

from __future__ import annotations

from models.training.evaluate import TRAINING_METRICS, TrainingPoint, evaluate_training

__all__ = ["TRAINING_METRICS", "TrainingPoint", "evaluate_training"]
