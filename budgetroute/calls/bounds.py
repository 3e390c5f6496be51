"""What a client's call may not contain, because its cost could not be bounded before it is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from budgetroute.calls.dialects import CHAT, MESSAGES, RESPONSES, field_of, items_of
from budgetroute.calls.said import EXTRA_BODY, is_silent
from budgetroute.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from budgetroute.calls.dialects import Dialect

_UNSEEN = "the provider adds input that is not seen here; pass the whole conversation instead"
_TURNS = "the provider runs further turns inside the call, with input that is not seen here"
_SUBSTITUTE = "another model than the one that was chosen and held may answer"
_REFUSED: Final[Mapping[str, Mapping[str, str]]] = {
    CHAT.name: {
        "context_window_fallback_dict": _SUBSTITUTE,
        "fallbacks": _SUBSTITUTE,
        "models": _SUBSTITUTE,
        "plugins": "they have fees of their own",
        "prediction": "rejected tokens are billed, and no cap may be sent with it",
    },
    RESPONSES.name: {
        "background": "its bill comes after the call has returned",
        "context_management": "compaction is a further, billed turn",
        "conversation": _UNSEEN,
        "models": _SUBSTITUTE,
        "plugins": "they have fees of their own",
        "previous_response_id": _UNSEEN,
        "prompt": "a stored prompt's text, model and tools are not seen here; pass them",
        "response_id": "it reads a response that exists and costs nothing",
    },
    MESSAGES.name: {
        "container": _TURNS,
        "context_management": "compaction is a further, billed turn",
        "fallbacks": _SUBSTITUTE,
        "mcp_servers": _TURNS,
    },
}
"""Dialect → parameter → why a call with it is refused."""
_INPUT = ("functions", "input", "instructions", "messages", "system", "tools")
_TOOLS = frozenset({"apply_patch", "custom", "function", "local_shell"})
_TOOL_FAMILIES = (
    "bash_",
    "computer_",
    "memory_",
    "text_editor_",
)  # Anthropic's, with a date behind
_STANDARD = "standard"
_NAMED = ("function", "input_schema", "name")


def refuse_unbounded(dialect: Dialect, given: Mapping[str, Any], *, where: str) -> None:
    """Refuse a client's call whose cost has no bound before it is sent.

    Args:
        dialect: the client's API.
        given: parameter → value, as passed.
        where: what errors call the place.

    Raises:
        ConfigError: what was found, why it has no bound, and what to do.
    """
    extra = given.get(EXTRA_BODY)
    everything = {**given, **extra} if isinstance(extra, Mapping) else given
    _refuse_replaced(extra, where)
    for name, why in _REFUSED[dialect.name].items():
        value = everything.get(name)
        if not (is_silent(value) or value is False):
            raise _refused(where, f"{name}=", why)
    if dialect is not CHAT:  # its tools are the caller's; a search there is one, and is held for
        _refuse_tools(everything.get("tools"), where)
    if dialect is RESPONSES:
        _refuse_unseen(everything, where)


def _refuse_replaced(extra: object, where: str) -> None:
    """Refuse input in `extra_body`, which is sent over what was counted."""
    found = [name for name in _INPUT if name in extra] if isinstance(extra, Mapping) else []
    if found:
        raise ConfigError(
            f"{where}: extra_body holds {', '.join(found)}, which would be sent in place of what was "
            "counted and held. Pass it as a parameter of its own."
        )


def _refuse_tools(tools: Any, where: str) -> None:  # noqa: ANN401 - the caller's own
    listed: Iterable[Any] = tools if isinstance(tools, list | tuple) else ()
    odd = next((tool for tool in listed if not _is_ours(tool)), None)
    if odd is not None:
        kind = field_of(odd, "type") or next(iter(odd), "?") if isinstance(odd, Mapping) else "?"
        raise _refused(where, f"a tool {kind!r} in tools", f"it is the provider's own: {_TURNS}")


def _refuse_unseen(given: Mapping[str, Any], where: str) -> None:
    """Refuse what only Responses have: items that are looked up, and reasoning in many ways at once."""
    if any(map(_is_reference, items_of(given))):
        raise _refused(where, "an item reference in input", _UNSEEN)
    mode = field_of(given.get("reasoning"), "mode")
    if mode is not None and mode != _STANDARD:
        raise _refused(
            where, f"reasoning mode {mode!r}", "what it takes beyond the cap is not known"
        )


def _is_ours(tool: object) -> bool:
    """Say whether the caller runs a tool: then each of its results is a call that is held for."""
    kind = field_of(tool, "type")
    if kind is None:
        return callable(tool) or any(field_of(tool, name) is not None for name in _NAMED)
    return kind in _TOOLS or str(kind).startswith(_TOOL_FAMILIES)


def _is_reference(item: object) -> bool:
    kind = field_of(item, "type")
    bare = kind is None and field_of(item, "content") is None
    return kind == "item_reference" or (bare and field_of(item, "id") is not None)


def _refused(where: str, what: str, why: str) -> ConfigError:
    return ConfigError(
        f"{where} was called with {what}: {why}, so the cost has no bound that could be held. Leave it "
        "out; or call in a function of yours under @route, which learns what is added to its input; or "
        "use a client that is not routed, whose calls no budget sees."
    )
