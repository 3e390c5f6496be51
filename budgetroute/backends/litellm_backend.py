"""Model calls through litellm: one request on the wire per call, no retries, no substitutes."""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from budgetroute.backends.versions import litellm_problem
from budgetroute.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import ModuleType

__all__ = ["LiteLLMBackend"]

_LOCAL_MAP = "LITELLM_LOCAL_MODEL_COST_MAP"
_IMPORTING = threading.Lock()
_SUBSTITUTES = ("fallbacks", "context_window_fallback_dict", "model_list")
_NO_RETRIES = {"max_retries": 0, "num_retries": 0}
_LONGEST_S = 600.0  # litellm's own default is 6,000 s


class LiteLLMBackend:
    """Sends chat requests through litellm, imported at the first one (3 s of CPU).

    litellm and the OpenAI SDK both retry by default, three requests where one was reserved; both are
    set to 0, and `retry_policy` is dropped. A request without `timeout` gets 600 s.
    """

    def __init__(self) -> None:
        self._litellm: ModuleType | None = None

    def load(self) -> ModuleType:
        """Import litellm now; raises ConfigError if it is missing or a malicious release."""
        if self._litellm is None:
            self._litellm = _import()
        return self._litellm

    def complete(self, **kwargs: Any) -> Any:  # noqa: ANN401 - whatever litellm takes and returns
        """Return litellm's response or, with `stream=True`, its stream; raises what litellm raises.

        Raises:
            ConfigError: litellm must not be used, or `fallbacks` or the like are given.
        """
        request = _one_request(kwargs)
        return self.load().completion(**request)

    async def acomplete(self, **kwargs: Any) -> Any:  # noqa: ANN401 - see complete
        """Do what `complete` does, awaited; the import of the first call runs in a thread."""
        request = _one_request(kwargs)
        await self._aload()
        return await self.load().acompletion(**request)

    def untouched(self, **kwargs: Any) -> Any:  # noqa: ANN401 - see complete
        """Do what litellm does with what was passed, its own retries and substitutes included.

        Raises:
            ConfigError: litellm must not be used.
        """
        return self.load().completion(**kwargs)

    async def auntouched(self, **kwargs: Any) -> Any:  # noqa: ANN401 - see complete
        """Do what `untouched` does, awaited; the import of the first call runs in a thread."""
        await self._aload()
        return await self.load().acompletion(**kwargs)

    async def _aload(self) -> None:
        if self._litellm is None:
            await asyncio.to_thread(self.load)


def _one_request(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    for name in _SUBSTITUTES:
        if kwargs.get(name):
            raise ConfigError(
                f"{name}= was given: litellm would answer with another model than the one chosen and "
                f"reserved, in further requests that no budget has seen. Leave it out; budgetroute "
                f"decides again without a model that failed. List the models in [models]."
            )
    rest = {name: value for name, value in kwargs.items() if name != "retry_policy"}
    timeout = rest.pop("timeout", None)
    return {**rest, **_NO_RETRIES, "timeout": _LONGEST_S if timeout is None else timeout}


def _import() -> ModuleType:
    problem = litellm_problem()
    if problem is not None:
        raise ConfigError(problem)
    with _IMPORTING, _own_price_map():
        import litellm
    litellm.suppress_debug_info = True
    module: ModuleType = litellm
    return module


@contextmanager
def _own_price_map() -> Iterator[None]:
    """Keep litellm from fetching its price map at import; leave the environment as it was."""
    if _LOCAL_MAP in os.environ:
        yield
        return
    os.environ[_LOCAL_MAP] = "True"
    try:
        yield
    finally:
        del os.environ[_LOCAL_MAP]
