"""Optuna samplers by name, re-seeded for each generation.

A fresh sampler per generation, seeded by (study seed, generation), makes what is asked a function
of the trials told so far: the same for any number of workers and after any interruption.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dse.errors import UserError

if TYPE_CHECKING:
    import optuna

NAMES = ("nsga2", "nsga3", "tpe", "gp", "qmc", "random")

# NSGA-II and -III take parents only from trials that carry their generation attribute; Optuna sets
# it lazily and not at all on enqueued trials, so this package sets it on every trial itself.
_GENERATION_ATTRIBUTE = {
    "nsga2": "NSGAIISampler:generation",
    "nsga3": "NSGAIIISampler:generation",
}


def make(name: str, seed: int, generation: int, population: int) -> optuna.samplers.BaseSampler:
    """The sampler called `name` for one generation.

    Raises UserError for an unknown name, or for `gp` where torch is not installed.
    """
    import optuna

    if name not in NAMES:
        raise UserError(f"search.sampler {name!r} is not one of {', '.join(NAMES)}")
    if name == "gp" and importlib.util.find_spec("torch") is None:
        raise UserError("search.sampler gp needs torch (pip install torch); nsga2 does not")
    sub_seed = int(np.random.SeedSequence([seed, generation]).generate_state(1)[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        if name == "nsga2":
            return optuna.samplers.NSGAIISampler(population_size=population, seed=sub_seed)
        if name == "nsga3":
            return optuna.samplers.NSGAIIISampler(population_size=population, seed=sub_seed)
        if name == "gp":
            return optuna.samplers.GPSampler(seed=sub_seed)
        if name == "tpe":
            # Univariate TPE, the default for several objectives, repeats two designs in three.
            return optuna.samplers.TPESampler(seed=sub_seed, multivariate=True, constant_liar=True)
        return optuna.samplers.RandomSampler(seed=sub_seed)  # random; qmc: see `planned_rows`


def planned_rows(
    name: str, seed: int, first: int, count: int, cardinalities: Sequence[int]
) -> np.ndarray:
    """Rows first .. first + count - 1 that `name` tries whatever it is told, int32[count, knobs];
    empty for samplers that listen.

    qmc is SciPy's scrambled Sobol sequence, addressed by trial number: Optuna's own keeps its
    position in the study and would lose it when a study is resumed.
    """
    if name != "qmc":
        return np.zeros((0, len(cardinalities)), dtype=np.int32)
    from scipy.stats import qmc

    sequence = qmc.Sobol(len(cardinalities), scramble=True, rng=np.random.default_rng(seed))
    if first:
        sequence.fast_forward(first)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # wants powers of two
        points = sequence.random(count)
    rows: np.ndarray = np.floor(points * np.array(cardinalities)).astype(np.int32)
    return rows


def system_attributes(name: str, generation: int) -> dict[str, Any]:
    """Attributes a trial of `generation` must carry to become a parent later."""
    key = _GENERATION_ATTRIBUTE.get(name)
    return {} if key is None else {key: generation}


def waiting(name: str, generation: int, pinned: Mapping[str, int]) -> optuna.trial.FrozenTrial:
    """A trial for the next `ask` to take up, born into `generation`, with `pinned` knobs if any.

    `Study.enqueue_trial` makes the same without the generation, and such trials never become
    parents.
    """
    import optuna

    attributes = system_attributes(name, generation)
    if pinned:
        attributes["fixed_params"] = dict(pinned)
    return optuna.trial.create_trial(state=optuna.trial.TrialState.WAITING, system_attrs=attributes)


def restore_parents(
    study: optuna.Study, of_generation: Iterable[optuna.samplers.BaseSampler]
) -> None:
    """Choose again, oldest first, the parents of each generation that was told.

    of_generation: the samplers of generations 0, 1, ... An uninterrupted study has the choices
    cached. Without this, a resumed one would derive them recursively, which overflows the stack
    after some hundred generations, and with the wrong random numbers.
    """
    import optuna

    genetic = optuna.samplers.NSGAIISampler | optuna.samplers.NSGAIIISampler
    for generation, sampler in enumerate(of_generation):
        if isinstance(sampler, genetic):
            sampler.get_parent_population(study, generation)


def distributions(
    names: Sequence[str], cardinalities: Sequence[int]
) -> dict[str, optuna.distributions.BaseDistribution]:
    """One index per knob that has a choice; labels stay in our own schema, where they can grow."""
    import optuna

    return {
        name: optuna.distributions.IntDistribution(0, int(count) - 1)
        for name, count in zip(names, cardinalities, strict=True)
        if count > 1
    }


def directions(names: Sequence[str]) -> list[optuna.study.StudyDirection]:
    """Optuna's directions for 'maximize' and 'minimize'."""
    import optuna

    return [optuna.study.StudyDirection[name.upper()] for name in names]
