"""A local OpenAI-compatible server: what the fakes for users' tests and the demo's models stand on."""

from budgetroute.loopback.chat import Choice, Completion, chat_response, error_response, only_chat
from budgetroute.loopback.http import Loopback, Received, Response
from budgetroute.loopback.process import serve_until_eof, served

__all__ = [
    "Choice",
    "Completion",
    "Loopback",
    "Received",
    "Response",
    "chat_response",
    "error_response",
    "only_chat",
    "serve_until_eof",
    "served",
]
