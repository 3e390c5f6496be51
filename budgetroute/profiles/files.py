"""Profiles as files: by name from the package, by path from the user."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from budgetroute import files
from budgetroute.errors import ProfileError
from budgetroute.profiles.reading import MAX_BYTES, parse_profile
from budgetroute.profiles.writing import dump_profile

if TYPE_CHECKING:
    from budgetroute.records import Profile

MAX_CLASSIFIER_BYTES = 64 * 1024 * 1024


def load_profile(name_or_path: str | os.PathLike[str], *, base: Path | None = None) -> Profile:
    """Read a profile by name or path; blocks on one file.

    Args:
        name_or_path: a bare name such as `broad` is one of `shipped()`; anything with a suffix or
            a separator is a file.
        base: folder that relative paths start from; None = the working directory.

    Raises:
        ProfileError: it is missing, too large or malformed.
    """
    path = profile_path(name_or_path, base=base)
    return parse_profile(_content(path, most=MAX_BYTES), origin=str(path))


def profile_path(name_or_path: str | os.PathLike[str], *, base: Path | None = None) -> Path:
    """Return the file a profile is read from; raises ProfileError when there is none."""
    asked = os.fspath(name_or_path)
    if Path(asked).name == asked and not Path(asked).suffix:
        path = _shipped_folder() / f"{asked}.json"
        if not path.is_file():
            names = ", ".join(shipped()) or "none"
            raise ProfileError(
                f"profile {asked!r}: no such profile ships; there are: {names}. A file needs its "
                f"suffix, as in {asked + '.json'!r}."
            )
        return path
    path = (base or Path()) / Path(asked).expanduser()
    if not path.is_file():
        raise ProfileError(f"profile {asked}: no file at {path.absolute()}")
    return path


def shipped() -> list[str]:
    """Return the names of the profiles that come with the package, sorted."""
    return sorted(path.stem for path in _shipped_folder().glob("*.json"))


def classifier_path(
    profile: Profile, name_or_path: str | os.PathLike[str], *, base: Path | None = None
) -> Path | None:
    """Return the profile's classifier file after checking its hash; None when it has none.

    Args:
        profile: what was read.
        name_or_path: where it was read from; the classifier lies beside it.
        base: as for `load_profile`.

    Raises:
        ProfileError: the file is missing or has another hash than the profile says.
    """
    if profile.classifier is None:
        return None
    home = profile_path(name_or_path, base=base)
    path = home.parent / profile.classifier.name
    found = hashlib.sha256(_content(path, most=MAX_CLASSIFIER_BYTES)).hexdigest()
    if found != profile.classifier.sha256:
        raise ProfileError(
            f"profile {home}: classifier: {path} has sha256 {found}, the profile was made with "
            f"{profile.classifier.sha256}; restore the file, or rebuild both together"
        )
    return path


def save_profile(profile: Profile, path: Path) -> None:
    """Write a profile; a reader sees the old file or the new one, never half of it."""
    try:
        with files.draft_of(path, dump_profile(profile)) as draft:
            draft.replace(path)
    except OSError as err:
        raise ProfileError(f"profile {path}: cannot be written: {err.strerror or err}") from err


def _shipped_folder() -> Path:
    here = Path(__file__).resolve().parents[1]
    in_wheel = here / "_profiles"
    return in_wheel if in_wheel.is_dir() else here.parent / "profiles"


def _content(path: Path, *, most: int) -> bytes:
    try:
        return files.read(path, most=most)[0]
    except OSError as err:
        raise ProfileError(f"profile {path}: cannot be read: {err.strerror or err}") from err
