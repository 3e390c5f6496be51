"""A wrapped client: a copy of the user's, of a class of its own that decides what may be sent.

Where a request is made the copy asks first, so an endpoint that nobody has thought of is refused and
not paid for. Language-model calls take another way: they are routed, and sent by a second copy that
does not repeat by itself.
"""

from __future__ import annotations

import functools
import inspect
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar, cast

from budgetroute.calls.options import Options, named
from budgetroute.calls.routed import routed
from budgetroute.calls.routers import default_router, is_off
from budgetroute.errors import ConfigError
from budgetroute.wrapping.paths import is_free

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from budgetroute.router import Router

C = TypeVar("C")

_SDKS = ("anthropic", "openai")
_SOCKETS = ("ws:", "wss:")
_METHODS = ("create", "parse", "stream")


def wrap(  # noqa: PLR0913 - one argument per thing that is said
    client: C,
    /,
    *,
    route: str | None = None,
    prompt_type: str | None = None,
    floor: float | None = None,
    require: Iterable[str] = (),
    providers: Iterable[str] | None = None,
    router: Router | None = None,
) -> C:
    """Return a client like this one, with a budget; the client itself is not changed.

    Takes `OpenAI`, `Anthropic`, their async twins, and what derives from them, such as `AzureOpenAI`.
    Routed are `create`, `parse` and `stream` of `chat.completions`, `responses` and `messages`, with
    their raw and streaming responses: the `model` and effort that are passed are the baseline, the
    cap is a ceiling, only `pin()` pins. What may cost money in another way, as embeddings and images
    do, is refused; what is free passes, as `models.list()` and `files` do. `with_options()` of a
    wrapped client is wrapped.

    A routed call is tried as often as the client's `max_retries` says, each time with a reservation
    of its own; `stream()`, which sends when its block is entered, is tried once.

    Args:
        client: the client.
        route: the route's name, for config, overheads and logs; default: `openai` or `anthropic`.
        prompt_type: the type of every prompt; default: classified.
        floor: least acceptable predicted reward, in [0, 1].
        require: tags that a model must carry.
        providers: providers that the client's address serves; default: the passed model's.
        router: the router to ask; default: the one of budgetroute.toml.

    Raises:
        ConfigError: it is no such client, or wrapped already.
    """
    if isinstance(client, _Routed):
        raise ConfigError(
            "wrap(): this client is wrapped already, and each call would be counted twice. Leave one "
            "of the two out."
        )
    base = _base(type(client))
    if base is None:
        raise ConfigError(
            f"wrap() takes a client of OpenAI or Anthropic, found {type(client).__name__}. Put @route on "
            "a function that calls it."
        )
    options = Options(
        name=route or _sdk_of(base),
        prompt_type=prompt_type,
        floor=floor,
        require=named("require", require),
        providers=None if providers is None else named("providers", providers),
        router=router,
    )
    return cast("C", _wrapped(client, options))


def _wrapped(client: Any, options: Options) -> Any:  # noqa: ANN401 - the user's own client
    kind: Any = type(client)
    made = object.__new__(_class_for(kind))
    vars(made).update(vars(client.copy()), _br_plain=client, _br_options=options)
    return made


class _Routed:
    """What a wrapped client does in its own way; stands before the client's own class."""

    _br_plain: Any
    _br_options: Options

    def copy(self, **changes: Any) -> Any:  # noqa: ANN401 - the client's own parameters
        """Return the wrapped client with other settings."""
        return _wrapped(self._br_plain.copy(**changes), self._br_options)

    with_options = copy

    def request(self, cast_to: Any, options: Any, **more: Any) -> Any:  # noqa: ANN401 - the client's own
        """Send a request that is free, and refuse others; what is routed does not come here."""
        self._br_check(options)
        return cast("Any", super()).request(cast_to, options, **more)

    def _prepare_options(self, options: Any) -> Any:  # noqa: ANN401 - the client's own
        if options.url.startswith(_SOCKETS):  # they do not come by `request`
            self._br_check(options)
        return cast("Any", super())._prepare_options(options)  # noqa: SLF001 - the client's own hook

    def _br_check(self, options: Any) -> None:  # noqa: ANN401 - the client's own
        """Refuse a request that may cost money."""
        host = cast("Any", self).base_url.host
        if not is_free(options.method, options.url, host=host):
            self._br_refuse(f"{options.method.upper()} {options.url}")

    def _br_refuse(self, what: str) -> None:
        """Refuse what may cost money; off and in shadow mode it passes, since nothing may change."""
        if is_off(self._br_options.router):
            return
        router = self._br_options.router or default_router()
        if router.is_shadow:
            router.herald.warn(f"shadow: {what} through a wrapped client is not counted")
        else:
            raise ConfigError(
                f"{what} through a wrapped client: what it costs is not known before it is sent, so no "
                "budget could hold it. Use the client that was given to wrap(); no budget will see it."
            )

    def _br_open(self, resource: Any, path: str) -> None:  # noqa: ANN401 - the client's own
        """Route the methods of a resource; all its raw and streaming faces lead through them."""
        sender = self._br_plain.copy(max_retries=0)
        attempts = 1 + self._br_plain.max_retries
        for name in _METHODS:
            if hasattr(resource, name):
                method = attrgetter(f"{path}.{name}")
                straight = method(self._br_plain)
                options = replace(self._br_options, attempts=attempts, straight=straight)
                setattr(resource, name, routed(method(sender), options))
        self._br_shut(resource, f"{path}.connect()")

    def _br_shut(self, resource: Any, what: str) -> None:  # noqa: ANN401 - the client's own
        """Refuse a resource's web socket."""
        connect = getattr(resource, "connect", None)
        if connect is None:
            return

        @functools.wraps(connect)
        def shut(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the client's own
            self._br_refuse(what)
            return connect(*args, **kwargs)

        resource.connect = shut


class _RoutedOpenAI(_Routed):
    @functools.cached_property
    def chat(self) -> Any:  # noqa: ANN401 - the client's own
        """Return the client's, with routed completions."""
        found = _own(self, "chat")
        self._br_open(found.completions, "chat.completions")
        return found

    @functools.cached_property
    def responses(self) -> Any:  # noqa: ANN401 - the client's own
        """Return the client's, routed."""
        found = _own(self, "responses")
        self._br_open(found, "responses")
        return found

    @functools.cached_property
    def beta(self) -> Any:  # noqa: ANN401 - the client's own
        """Return the client's, with routed completions."""
        found = _own(self, "beta")
        if hasattr(found, "chat"):
            self._br_open(found.chat.completions, "beta.chat.completions")
        if hasattr(found, "realtime"):
            self._br_shut(found.realtime, "beta.realtime.connect()")
        return found

    @functools.cached_property
    def realtime(self) -> Any:  # noqa: ANN401 - the client's own
        """Return the client's, which cannot connect."""
        found = _own(self, "realtime")
        self._br_shut(found, "realtime.connect()")
        return found


class _RoutedAnthropic(_Routed):
    @functools.cached_property
    def messages(self) -> Any:  # noqa: ANN401 - the client's own
        """Return the client's, routed."""
        found = _own(self, "messages")
        self._br_open(found, "messages")
        return found

    @functools.cached_property
    def beta(self) -> Any:  # noqa: ANN401 - the client's own
        """Return the client's, with routed messages; its tool runner calls them turn by turn."""
        found = _own(self, "beta")
        self._br_open(found.messages, "beta.messages")
        return found


_CLIENTS: Mapping[str, type[_Routed]] = {
    "Anthropic": _RoutedAnthropic,
    "AsyncAnthropic": _RoutedAnthropic,
    "AsyncOpenAI": _RoutedOpenAI,
    "OpenAI": _RoutedOpenAI,
}


def _own(client: _Routed, name: str) -> Any:  # noqa: ANN401 - the client's own
    """Return a resource as the client's own class makes it; no thread sees it before it is routed."""
    return inspect.getattr_static(type(client._br_plain), name).func(client)  # noqa: SLF001 - one module


@functools.cache
def _class_for(kind: Any) -> Any:  # noqa: ANN401 - classes, whose hash mypy does not see
    """Return the class of a wrapped client: isinstance() sees the user's."""
    names = {
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "__doc__": kind.__doc__,
    }
    return type(kind.__name__, (_CLIENTS[_base(kind).__name__], kind), names)


def _base(kind: type) -> Any:  # noqa: ANN401 - the SDK's
    """Return the SDK's own class that a client's class derives from; None where there is none."""
    own = (base for base in kind.__mro__ if _sdk_of(base) in _SDKS)
    return next((base for base in own if base.__name__ in _CLIENTS), None)


def _sdk_of(kind: type) -> str:
    return kind.__module__.partition(".")[0]
