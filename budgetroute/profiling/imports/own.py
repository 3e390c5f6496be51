"""Tables of outcomes as logs, so that models, types and gaps are treated alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from budgetroute.profiling.columns import BY_NAME, is_missing
from budgetroute.profiling.imports.logged import Logged, Sent, Used, refuse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

SCORER = "reward"


def own_calls(rows: Iterable[tuple[int, Mapping[str, Any]]], path: Path) -> Iterator[Logged]:
    """Yield the calls of a table; other columns are metadata.

    Raises:
        ProfileError: a value is not what its column holds, or prompt or model is missing.
    """
    for number, row in rows:
        yield _call(row, path, number=number)


def _call(row: Mapping[str, Any], path: Path, *, number: int) -> Logged:
    said = _values(row, path, number=number)
    lacking = [name for name in ("prompt_id", "model") if name not in said]
    if lacking:
        raise refuse(
            path,
            f"row {number}: {' and '.join(lacking)} missing; found the columns "
            f"{', '.join(repr(name[:30]) for name in list(row)[:12])}",
        )
    return Logged(
        place=f"{path.name}: row {number}",
        prompt=said["prompt_id"],
        model=said["model"],
        scores={SCORER: said.get("reward")},
        type=said.get("type"),
        task=said.get("task"),
        sent=Sent(
            said.get("max_tokens"),
            cot=said.get("cot"),
            effort=said.get("reasoning_effort"),
            temperature=said.get("temperature"),
            n=said.get("n"),
        ),
        used=_used(said),
        tags={name: value for name, value in row.items() if name not in BY_NAME},
        is_ours=True,
    )


def _values(row: Mapping[str, Any], path: Path, *, number: int) -> dict[str, Any]:
    said: dict[str, Any] = {}
    for key, value in row.items():
        column = BY_NAME.get(key)
        if column is None or is_missing(value):
            continue
        try:
            said[column.name] = value if column.name == SCORER else column.read(value)
        except ValueError as err:
            raise refuse(path, f"row {number}: {key}: allowed is {err}") from None
    return said


def _used(said: Mapping[str, Any]) -> Used:
    return Used(
        said.get("input_tokens"),
        said.get("output_tokens"),
        said.get("reasoning_tokens"),
        complete_tokens=said.get("complete_tokens"),
        latency_s=said.get("latency_s"),
        cost_usd=said.get("cost_usd"),
        basis=said.get("token_basis"),
    )
