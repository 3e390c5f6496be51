"""The shipped profile: it loads, is priced, spans what it promises and can be rebuilt."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from budgetroute.curves import hull
from budgetroute.profiles import classifier_path, dump_profile, load_profile, profile_path

TYPES = ["chat", "code", "general", "knowledge", "math", "reading", "reasoning"]
BLEND = 3  # input tokens per output token in a blended price


@pytest.fixture(scope="module")
def broad():
    return load_profile("broad")


@pytest.fixture(scope="module")
def price_map():
    folder = Path(find_spec("litellm").origin).parent
    name = "model_prices_and_context_window_backup.json"
    return json.loads((folder / name).read_text(encoding="utf-8"))


def models(profile):
    return list(dict.fromkeys(action.model for action in profile.actions))


def points(profile, price_map, kind, *, provider=None):
    """Return (cost, reward) and cell of every action on a type, at the type's mean input."""
    found = []
    for action, cell in zip(profile.actions, profile.cells[kind], strict=True):
        entry = price_map[action.model]
        if provider in (None, entry["litellm_provider"]):
            sent = profile.types[kind].input_tokens * cell.input_factor
            cost = (
                sent * entry["input_cost_per_token"]
                + cell.output_mean * entry["output_cost_per_token"]
            )
            found.append((cost, cell.reward))
    return found


def test_it_has_the_promised_types(broad):
    """Six types and general."""
    assert sorted(broad.types) == TYPES


def test_it_has_at_least_six_models(broad):
    """Enough models to choose from."""
    assert len(models(broad)) >= 6


def test_every_model_is_priced_in_litellm_s_map(broad, price_map):
    """Names are keys of the map, with numbers for input and output."""
    for model in models(broad):
        assert price_map[model]["input_cost_per_token"] > 0
        assert price_map[model]["output_cost_per_token"] > 0


def test_prices_span_twenty_times(broad, price_map):
    """The dearest model costs at least 20 times the cheapest, three input tokens to one output."""
    blended = [
        BLEND * price_map[model]["input_cost_per_token"] + price_map[model]["output_cost_per_token"]
        for model in models(broad)
    ]
    assert max(blended) >= 20 * min(blended)


def test_every_type_knows_every_action(broad):
    """No gaps: a mixture of types never compares actions over different types."""
    for row in broad.cells.values():
        assert all(cell is not None for cell in row)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("provider", [None, "openai"])
def test_there_is_something_to_choose_in_every_type(broad, price_map, kind, provider):
    """At least three hull vertices over at least ten times in cost, also with OpenAI alone."""
    curve = points(broad, price_map, kind, provider=provider)
    vertices = [curve[i] for i in hull(curve)]
    assert len(vertices) >= 3
    assert vertices[-1][0] >= 10 * vertices[0][0]


def test_no_model_was_retired_when_it_was_made(broad, price_map):
    """What a provider no longer serves is evidence only, no action."""
    for model in models(broad):
        day = price_map[model].get("deprecation_date")
        assert day is None or day > broad.created


@pytest.mark.parametrize("kind", ["math", "code"])
@pytest.mark.parametrize("model", ["gpt-4o-mini", "gpt-4o", "meta.llama3-1-8b-instruct-v1:0"])
def test_reasoned_answers_are_measured_where_the_data_has_them(broad, kind, model):
    """Half of math and of code was answered by these models: over 500 answers each."""
    row = zip(broad.actions, broad.cells[kind], strict=True)
    reasoned = [c for a, c in row if a.model == model and (a.cot or kind == "code")]
    assert any(cell.source == "measured" and cell.n > 500 for cell in reasoned)


def test_more_room_never_promises_less(broad):
    """Rewards are monotone in the cap for every model, instruction and type."""
    for row in broad.cells.values():
        best: dict[tuple[str, bool], float] = {}
        for action, cell in zip(broad.actions, row, strict=True):
            key = action.model, action.cot
            assert cell.reward >= best.get(key, 0)
            best[key] = cell.reward


def test_cells_are_consistent(broad):
    """Expected tokens and quantiles stay under the cap; estimates have no samples."""
    for row in broad.cells.values():
        for action, cell in zip(broad.actions, row, strict=True):
            assert cell.output_mean <= action.max_tokens
            assert cell.output_p95 <= cell.output_p99 <= action.max_tokens
            assert (cell.n > 0) is (cell.source == "measured")
            assert cell.reward_se > 0
            assert (cell.input_factor > 1) is action.cot


def test_no_estimate_runs_away_from_what_was_measured(broad):
    """No estimate beats the best measured cell of its type by more than 15 points."""
    for kind in ("math", "knowledge", "code"):
        best = max(cell.reward for cell in broad.cells[kind] if cell.source == "measured")
        estimates = [cell.reward for cell in broad.cells[kind] if cell.source != "measured"]
        assert max(estimates) <= best + 0.15


def test_general_is_the_mixture_of_the_types(broad):
    """Each general reward is the share-weighted mean of the types'."""
    shares = {name: kind.share for name, kind in broad.types.items() if name != "general"}
    assert broad.types["general"].share == 0
    for i, cell in enumerate(broad.cells["general"]):
        mean = sum(share * broad.cells[name][i].reward for name, share in shares.items())
        assert cell.reward == pytest.approx(mean, abs=1e-5)


def test_it_says_what_it_rests_on(broad):
    """Sources with licences, tasks with weights and counts, and notes are in the file."""
    assert all(row["licence"] and row["commit"] for row in broad.provenance["sources"])
    for tasks in broad.provenance["tasks"].values():
        assert sum(task["weight"] for task in tasks.values()) == pytest.approx(1)
        assert all(task["answers"] for task in tasks.values())
    assert any("cot = false" in note for note in broad.provenance["notes"])


def test_its_classifier_is_the_one_it_was_made_with(broad):
    """The file beside it has the hash that the profile names."""
    if broad.classifier is None:
        pytest.skip("this build of the profile has no classifier")
    assert classifier_path(broad, "broad").name == broad.classifier.name


def test_the_file_is_written_as_the_writer_writes(broad):
    """No hand has edited it: reading and writing gives the same bytes."""
    assert profile_path("broad").read_text(encoding="utf-8") == dump_profile(broad)
