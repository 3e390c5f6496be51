"""A local OpenAI-compatible server that answers by a script and keeps what it was sent."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from budgetroute.loopback import Loopback, only_chat
from budgetroute.testing.replies import Reply, ok, response

if TYPE_CHECKING:
    from collections.abc import Mapping

    from budgetroute.loopback import Received, Response

Step: TypeAlias = Reply | Callable[[dict[str, Any]], Reply]
"""A reply, or a function of the request's body that gives one."""


@dataclass(frozen=True, slots=True)
class Billed:
    """What one answered request cost its sender, whether or not the response said so.

    Attributes:
        model: the model asked for.
        usage: OpenAI's usage object.
    """

    model: str
    usage: Mapping[str, Any]


class ScriptedServer:
    """Answer chat completions by a script, on a free port of 127.0.0.1, inside a `with` block.

    Each request takes the next step; when the script is over, `after` answers. As a fixture:

        @pytest.fixture
        def server():
            with ScriptedServer() as server:
                yield server

    Attributes:
        requests: the bodies received, oldest first.
        headers: the headers received with them, names in lower case.
        billed: what the requests answered with a completion cost.
    """

    def __init__(self, *script: Step, after: Step | None = None) -> None:
        self._script = deque(script)
        self._after: Step = after or ok()
        self._loopback = Loopback(only_chat(self._answer, self._models))
        self.requests: list[dict[str, Any]] = []
        self.headers: list[Mapping[str, str]] = []
        self.billed: list[Billed] = []

    @property
    def base_url(self) -> str:
        """Return what an OpenAI client takes as `base_url`, litellm as `api_base`."""
        return self._loopback.base_url

    def then(self, *script: Step) -> None:
        """Add steps to the end of the script."""
        self._script.extend(script)

    def __enter__(self) -> Self:
        self._loopback.__enter__()
        return self

    def __exit__(self, *details: object) -> None:
        self._loopback.__exit__(*details)

    def _answer(self, body: dict[str, Any], received: Received) -> Response:
        self.requests.append(body)
        self.headers.append(received.headers)
        step = self._script.popleft() if self._script else self._after
        reply = step if isinstance(step, Reply) else step(body)
        if reply.usage is not None:
            self.billed.append(Billed(str(body.get("model")), reply.usage))
        return response(reply, body, number=len(self.requests))

    def _models(self) -> list[str]:
        return sorted({str(body.get("model")) for body in self.requests})
