"""Whether results still belong to a study file, and what a user can do when they do not."""

from __future__ import annotations

from dse.errors import StoreError
from dse.storage import Store

_WAYS_ON = (
    "Go on in one of these ways:\n"
    "  - undo the change, and run again to add to these results\n"
    "  - give the study another `name`, and keep both\n"
    "  - run with --restart: these results are kept as {old}, and the study starts anew"
)


def check_study(store: Store, fingerprint: str, text: str, file: str) -> None:
    """Raise StoreError, listing what changed, unless the results were made by this study.

    fingerprint: of the study file now; text: its content. The question and the number of trials may
    change freely (`StudySpec.fingerprint`); the rest decides what the results mean.
    """
    if store.meta()["fingerprint"] == fingerprint:
        return
    from dse.spec import difference

    found = "\n".join(f"  {line}" for line in difference(store.study_text(), text, file))
    raise StoreError(
        f"{file} changed since the results in {store.directory} were made:\n{found}\n"
        + _WAYS_ON.format(old=next_name(store))
    )


def check_model(store: Store, version: str) -> None:
    """Raise StoreError unless the results were scored by this version of the model."""
    old = store.meta()["model_version"]
    if old != version:
        raise StoreError(
            f"the results in {store.directory} were scored by model version {old}, this is "
            f"{version}; scores of two versions cannot be compared.\n"
            + _WAYS_ON.format(old=next_name(store))
        )


def next_name(store: Store) -> str:
    """Where `set_aside` would move the results: the first free `<name>.N` beside them."""
    number = 1
    while store.directory.with_name(f"{store.directory.name}.{number}").exists():
        number += 1
    return f"{store.directory.name}.{number}"


def set_aside(store: Store) -> str:
    """Rename the results to `next_name`; returns it."""
    name = next_name(store)
    store.directory.rename(store.directory.with_name(name))
    return name
