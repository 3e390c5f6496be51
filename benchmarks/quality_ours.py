"""This library's own way from graded prompts to a ranking: profile, classifier, residual, lane, slate.

Nothing is computed here that a user's router does not compute: the fit makes a profile and a
classifier file, a configuration names them, and each judged prompt is classified and ranked by them.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from budgetroute.classify.train import save_npz, train
from budgetroute.config import load_config
from budgetroute.profiles import save_profile
from budgetroute.profiling import (
    Answer,
    Graded,
    ResidualFit,
    cell_at,
    fit_residual,
    measured,
    monotone_caps,
    paired_noise,
    shrink_families,
)
from budgetroute.records import (
    AXES,
    Action,
    Cell,
    ClassifierRef,
    InputSize,
    Profile,
    PromptType,
    Request,
)
from budgetroute.router.assembly import price_book
from budgetroute.router.equipment import Equipment
from budgetroute.router.slate import Sizing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from quality_data import Matrix
    from workload import Floats, Ints

    from budgetroute.classify import LinearClassifier

ROUTE = "judged"
BYTES_PER_TOKEN = 4
PRICE = 1.0
"""λ at which decisions are timed; the time does not depend on it."""


@dataclass(frozen=True)
class Expected:
    """What a method expects: [prompt][action] rewards and dollars, and its time per decision."""

    rewards: Floats
    costs: Floats
    micros: float


def cells_of(half: Matrix, rows: Ints) -> tuple[Cell, ...]:
    """Return every action's cell on some prompts, caps replayed."""
    whole = dict(zip(half.models, half.widest.tolist(), strict=True))
    cells = []
    for place, (model, cap) in enumerate(half.actions):
        answers = [
            Answer(str(row), score, tokens)
            for row, score, tokens in zip(
                rows.tolist(),
                half.scores[rows, place].tolist(),
                half.outputs[rows, place].tolist(),
                strict=True,
            )
        ]
        cell = cell_at([(1.0, measured(answers))], cap, input_factor=1.0, basis="o200k")
        cut = float((half.outputs[rows, whole[model]] > cap).mean())
        cells.append(replace(cell, cut=cut))
    return tuple(cells)


def profile_of(half: Matrix, kinds: Ints, names: Sequence[str], *, shrunk: bool = True) -> Profile:
    """Return the profile of prompts sorted into types, with `general` over all of them."""
    rows = {name: np.flatnonzero(kinds == kind) for kind, name in enumerate(names)}
    rows = {name: found for name, found in rows.items() if found.size}
    groups = {**rows, "general": np.arange(kinds.size)}
    cells = {name: cells_of(half, found) for name, found in groups.items()}
    return Profile(
        name="fitted half",
        created="2026-11-29",
        types={
            name: PromptType(
                found.size / kinds.size if name != "general" else 0.0,
                round(float(half.inputs[found].mean())),
            )
            for name, found in groups.items()
        },
        actions=tuple(Action(*action) for action in half.actions),
        cells=shrunk_cells(half, cells, rows) if shrunk else cells,
    )


def shrunk_cells(
    half: Matrix, cells: Mapping[str, tuple[Cell, ...]], rows: Mapping[str, Ints]
) -> dict[str, tuple[Cell, ...]]:
    """Make caps monotone and shrink the types towards type + model, by paired noise."""
    actions = [Action(*action) for action in half.actions]
    made = {name: tuple(monotone_caps(actions, row)) for name, row in cells.items()}
    whole = half.scores[:, half.widest]
    noise = paired_noise([whole[found].tolist() for found in rows.values()])
    types = {name: made[name] for name in rows}
    return made | shrink_families(actions, types, dict(zip(half.models, noise, strict=True)))


def residual_of(half: Matrix, classifier: LinearClassifier) -> ResidualFit:
    """Fit the per-prompt residual on the answers that no cap cut."""
    whole = half.widest
    return fit_residual(
        classifier,
        Graded(
            texts=half.texts,
            labels=[half.labels[kind] for kind in half.kinds],
            families=half.models,
            scores=half.scores[:, whole],
            costs=half.costs[:, whole],
            tokens=half.outputs[:, whole],
        ),
    )


class Fitted:
    """A router's lane made of a fitted half.

    Args:
        half: graded prompts.
        arrays: the classifier's; None = the request names its type.
        kinds: the prompts' types; None = the labelled ones.
        names: the types' names, with `kinds`.
    """

    def __init__(
        self,
        half: Matrix,
        arrays: Mapping[str, Floats] | None,
        *,
        kinds: Ints | None = None,
        names: Sequence[str] = (),
    ) -> None:
        profile = profile_of(half, half.kinds if kinds is None else kinds, names or half.labels)
        self._home = tempfile.TemporaryDirectory()
        folder = Path(self._home.name)
        if arrays is not None:
            save_npz(folder / "types.npz", arrays)
            digest = hashlib.sha256((folder / "types.npz").read_bytes()).hexdigest()
            profile = _with_classifier(profile, ClassifierRef("types.npz", digest))
        save_profile(profile, folder / "half.json")
        file = folder / "budgetroute.toml"
        file.write_text(_configuration(half), encoding="utf-8")
        file.chmod(0o600)
        config = load_config(file)
        self.lane = Equipment(config, price_book(config)).lane(ROUTE)
        self._columns = {Action(*action).label: i for i, action in enumerate(half.actions)}

    def expected(self, judged: Matrix, types: Sequence[str | None]) -> Expected:
        """Rank every judged prompt; `types` are named by the call where they are not None."""
        shape = judged.scores.shape
        rewards, costs, spans = np.zeros(shape), np.zeros(shape), []
        for i, (text, kind) in enumerate(zip(judged.texts, types, strict=True)):
            known = kind if kind is None or kind in self.lane.table.types else "general"
            request = _request(text, known, int(judged.inputs[i]))
            sizing = Sizing(request.size, 0.0, 0)
            begun = time.perf_counter_ns()
            weights, _ = self.lane.chain.classify(request)
            guess = self.lane.chain.guess(request)
            slate = self.lane.eligible(request, weights[0][0]).slate
            ranking = slate.rank(weights, sizing, price=PRICE, floor=None, guess=guess)
            spans.append(time.perf_counter_ns() - begun)
            places = [self._columns[row.action.label] for row in slate.rows]
            if ranking.expected is None:
                raise RuntimeError("a slate ranked nothing")
            costs[i, places], rewards[i, places] = ranking.expected
        return Expected(rewards, costs, statistics.median(spans) / 1000)


def classifier_arrays(half: Matrix, labels: Sequence[str] | None = None) -> dict[str, Floats]:
    """Train the text classifier on a half."""
    names = [half.labels[kind] for kind in half.kinds] if labels is None else list(labels)
    return train(half.texts, names)


def _with_classifier(profile: Profile, classifier: ClassifierRef) -> Profile:
    return replace(profile, classifier=classifier)


def _request(text: str, kind: str | None, tokens: int) -> Request:
    return Request(
        route=ROUTE,
        text=text,
        size=InputSize(tokens, BYTES_PER_TOKEN * tokens),
        sendable=AXES,
        prompt_type=kind,
    )


def _configuration(half: Matrix) -> str:
    whole = dict(zip(half.models, half.widest.tolist(), strict=True))
    models = []
    for model, place in whole.items():
        given, made = (1e6 * half.prices[place]).tolist()
        price = f"price = {{ input = {given!r}, output = {made!r} }}"
        models.append(f"[models.{json.dumps(model)}]\n{price}")
    head = f'name = "quality"\nprofile = "half.json"\n[budget]\ndaily_usd = 1.0\n[routes.{ROUTE}]\n'
    return "\n".join([head, *models, ""])
