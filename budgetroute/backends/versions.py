"""Which versions of the libraries are installed, and which of them must not run."""

from __future__ import annotations

import importlib.metadata
import platform

__all__ = ["litellm_problem", "versions"]

_LIBRARIES = (
    "litellm",
    "openai",
    "tiktoken",
    "scikit-learn",
    "numpy",
    "scipy",
    "diskcache",
    "tenacity",
    "msgspec",
    "typer",
    "rich",
)
_MALICIOUS = {
    "1.82.7": "published on 24 March 2026 with a stolen token (MAL-2026-2144)",
    "1.82.8": "published on 24 March 2026 with a stolen token (MAL-2026-2144)",
}
_MALICIOUS_SERIES = "1.107."
_SERIES_STORY = "published on 21 October 2026 with a credential stealer"


def litellm_problem() -> str | None:
    """Say why the installed litellm must not be used; None = it may."""
    version = _version("litellm")
    if version is None:
        return "litellm is not installed; run: pip install 'litellm>=1.108.14,<2'"
    story = _MALICIOUS.get(version)
    if version.startswith(_MALICIOUS_SERIES):
        story = _SERIES_STORY
    if story is None:
        return None
    return (
        f"litellm {version} is installed, which was {story}: treat every secret this machine could "
        f"read as stolen, remove it and run: pip install 'litellm>=1.108.14,<2,!=1.107.*'"
    )


def versions() -> dict[str, str]:
    """Return name → version of Python and the libraries; "missing" where not installed."""
    found = {"python": platform.python_version()}
    return found | {name: _version(name) or "missing" for name in _LIBRARIES}


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
