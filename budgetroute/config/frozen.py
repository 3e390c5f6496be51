"""A dict that cannot be changed, for the tables of a frozen Config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from budgetroute.config.wording import without_secrets


class FrozenDict(dict[str, Any]):
    """A dict whose contents are set once; it pickles, copies and encodes like any dict."""

    def _refuse(self, *_args: object, **_kwargs: object) -> NoReturn:
        raise TypeError("the configuration is frozen; load another one with overrides instead")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __repr__(self) -> str:
        """Show the contents with secrets hidden: a config stands in tracebacks and logs."""
        return repr(without_secrets(self))

    def __reduce__(self) -> tuple[type[FrozenDict], tuple[dict[str, Any]]]:
        return FrozenDict, (dict(self),)


def frozen(value: object) -> object:
    """Return the value with its dict, or the dicts of its tuple, frozen; what is inside stays.

    >>> frozen(({"type": "code"},))
    ({'type': 'code'},)
    """
    if isinstance(value, Mapping):
        return FrozenDict(value)
    if isinstance(value, tuple):
        return tuple(frozen(part) for part in value)
    return value
