"""JSON answers held against a JSON schema; needs jsonschema, which comes with litellm."""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from budgetroute.errors import ConfigError
from budgetroute.graders.extraction import unfenced, without_thoughts
from budgetroute.graders.plain import verdict
from budgetroute.records import Grade

if TYPE_CHECKING:
    from collections.abc import Mapping

    from budgetroute.records import Reference, Response

__all__ = ["JsonSchema", "json_in"]

_NOTHING: Final = object()
_TRIES = 50
_BAD = (ValueError, RecursionError)


class JsonSchema:
    """The response is JSON that a schema accepts, alone or in a code block or in prose.

    References to other files or addresses in a schema are not followed.

    Args:
        schema: the schema; None = the reference's first answer is the schema, as JSON.
    """

    def __init__(self, schema: Mapping[str, Any] | bool | None = None) -> None:  # noqa: FBT001 - true and false are schemas
        self.schema = schema
        if schema is not None:
            _validator(schema)

    def score(self, response: Response, reference: Reference) -> Grade:
        """Return 1 when the schema accepts it, else 0."""
        schema = self._schema(reference)
        if schema is None:
            return Grade(None, "no JSON schema, neither in the grader nor in the reference")
        found = json_in(response.text or "")
        if found is _NOTHING:
            return Grade(0.0, "no JSON found")
        return _checked(schema, found)

    def _schema(self, reference: Reference) -> Any:  # noqa: ANN401 - JSON
        if self.schema is not None or not reference.answers:
            return self.schema
        try:
            return json.loads(reference.answers[0])
        except _BAD as err:
            raise ConfigError(
                f"json-schema: a reference is no JSON: {type(err).__name__}."
            ) from err


def _checked(schema: Any, found: Any) -> Grade:  # noqa: ANN401 - JSON
    from jsonschema.exceptions import ValidationError
    from referencing.exceptions import Unresolvable

    try:
        _validator(schema).validate(found)
    except ValidationError as err:
        return Grade(0.0, f"the schema's {str(err.validator)[:40]!r} refuses it")
    except Unresolvable:
        return Grade(None, "the schema refers to another one, which is not followed")
    except RecursionError:
        return Grade(0.0, "nested too deeply")
    return verdict(holds=True)


def json_in(text: str) -> Any:  # noqa: ANN401 - JSON
    """Return the JSON of a response; an object of this module's own when there is none."""
    text = without_thoughts(text).strip()
    for part in (text, (unfenced(text, "json") or "").strip()):
        if part and (found := _parsed(part)) is not _NOTHING:
            return found
    opening = re.finditer(r"[{\[]", text)
    tries = (_parsed(text[found.start() :], whole=False) for found in islice(opening, _TRIES))
    return next((found for found in tries if found is not _NOTHING), _NOTHING)


def _parsed(text: str, *, whole: bool = True) -> Any:  # noqa: ANN401 - JSON
    decoder = json.JSONDecoder(parse_constant=_refuse)
    try:
        found, end = decoder.raw_decode(text)
    except _BAD:
        return _NOTHING
    return _NOTHING if whole and text[end:].strip() else found


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _validator(schema: Any) -> Any:  # noqa: ANN401 - the library's class, of a schema's own draft
    import jsonschema
    from jsonschema.exceptions import SchemaError
    from referencing import Registry

    try:
        kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
        kind.check_schema(schema)
    except (SchemaError, RecursionError, TypeError) as err:
        raise ConfigError(
            f"json-schema: this is no JSON schema: {str(err).splitlines()[0][:200]}"
        ) from err
    return kind(schema, registry=Registry())  # an empty registry: nothing is fetched
