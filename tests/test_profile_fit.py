"""From a table of graded calls to a profile: read, checked, shrunk, pooled, priced."""

from __future__ import annotations

import csv
import json
import random
from dataclasses import replace

import pytest

from budgetroute.errors import ProfileError
from budgetroute.profiles import dump_profile, parse_profile
from budgetroute.profiling import (
    COLUMNS,
    FitSettings,
    fit_profile,
    hull_shares,
    interval,
    outcomes_of,
    read_outcomes,
    shrink_ways,
)
from budgetroute.records import Action, Cell

PRICES = {"small": (1e-7, 4e-7), "middle": (5e-7, 2e-6), "large": (3e-6, 1.2e-5)}
ABLE = {"small": 0.45, "middle": 0.65, "large": 0.85}
HARD = {"easy": 0.1, "plain": 0.0, "hard": -0.2}


def made_up(*, prompts=60, seed=1, kinds=HARD, skip=()):
    """Return rows of a matrix types × models: longer answers of better models, no cap."""
    luck = random.Random(seed)
    rows = []
    for kind, ease in kinds.items():
        for i in range(prompts):
            for model, able in ABLE.items():
                length = int(luck.lognormvariate(5.0, 0.6)) + 1
                if (kind, model) not in skip:
                    rows.append(
                        {
                            "prompt_id": f"{kind}-{i}",
                            "type": kind,
                            "model": model,
                            "reward": float(luck.random() < able + ease),
                            "output_tokens": length,
                            "complete_tokens": max(1, length - 5),
                            "input_tokens": 100,
                        }
                    )
    return rows


def table(rows):
    return outcomes_of(enumerate(rows, start=1))


def fitted(rows, **said):
    return fit_profile(
        table(rows), FitSettings("mine", created="2026-01-01", **said), rates=PRICES.get
    )


def cells(profile, kind):
    return dict(zip(profile.actions, profile.cells[kind], strict=True))


def top(profile, kind, model):
    """Return the cell of a model's largest cap."""
    found = {a.max_tokens: c for a, c in cells(profile, kind).items() if a.model == model}
    return found[max(found)]


class TestReading:
    @pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
    def test_three_formats_say_the_same(self, tmp_path, form):
        """The same rows in CSV, JSON lines and Parquet are the same outcomes."""
        rows = made_up(prompts=4)
        path = tmp_path / f"rows.{form}"
        if form == "csv":
            with path.open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, list(rows[0]))
                writer.writeheader()
                writer.writerows(rows)
        elif form == "jsonl":
            path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        else:
            pa = pytest.importorskip("pyarrow")
            import pyarrow.parquet as pq

            pq.write_table(pa.Table.from_pylist(rows), path)
        assert read_outcomes(path).rows == table(rows).rows

    @pytest.mark.parametrize(
        ("column", "value", "said"),
        [
            ("reward", 7, "reward is 7; allowed is 0 to 1"),
            ("score", "85", "score is '85'"),
            ("output_tokens", -1, "output_tokens is -1"),
            ("max_tokens", 0.5, "max_tokens is 0.5; allowed is a whole number"),
            ("cot", "maybe", "cot is 'maybe'; allowed is true or false"),
            ("latency_s", 2e6, "divide milliseconds"),
            ("cost_usd", 5e6, "neither cents"),
            ("complete_tokens", 10**6, "at most output_tokens"),
            ("token_basis", "words", "provider or o200k"),
            ("model", None, "model missing"),
            ("output_tokens", float("nan"), "output_tokens missing, and no cost_usd"),
        ],
    )
    def test_a_bad_value_is_told_with_its_row(self, column, value, said):
        """The error names row, column, what was found and what is allowed."""
        rows = made_up(prompts=2)
        if column == "score":
            rows = [{("score" if k == "reward" else k): v for k, v in row.items()} for row in rows]
        rows[4] = rows[4] | {column: value}
        with pytest.raises(ProfileError, match="row 5: ") as caught:
            table(rows)
        assert said in str(caught.value)

    def test_many_bad_rows_are_counted(self):
        """The first five are listed, the rest counted."""
        rows = [row | {"reward": 3} for row in made_up(prompts=4)]
        with pytest.raises(ProfileError) as caught:
            table(rows)
        assert "36 rows cannot be used" in str(caught.value)
        assert str(caught.value).count("allowed is") == 5
        assert "and 31 more" in str(caught.value)

    def test_a_prompt_in_the_place_of_its_id_is_not_repeated(self):
        """A text that is too long for an id is refused without showing any of it."""
        rows = made_up(prompts=1)
        rows[0] = rows[0] | {"prompt_id": "my secret " * 50}
        with pytest.raises(ProfileError, match="500 characters") as caught:
            table(rows)
        assert "secret" not in str(caught.value)

    def test_a_missing_column_is_told_with_its_other_names(self):
        """Without rewards the error says which columns would do."""
        rows = [{k: v for k, v in row.items() if k != "reward"} for row in made_up(prompts=1)]
        with pytest.raises(ProfileError, match="reward or score"):
            table(rows)

    def test_csv_rows_are_the_lines_of_the_file(self, tmp_path):
        """The header is line 1, as editors count."""
        path = tmp_path / "a.csv"
        path.write_text("id,model,score,output_tokens\na,m,1,5\nb,m,2,5\n", encoding="utf-8")
        with pytest.raises(ProfileError, match="row 3: score"):
            read_outcomes(path)

    def test_milliseconds_are_recognised(self):
        """A latency that is no day but half of the time ten minutes is no latency in seconds."""
        rows = [row | {"latency_s": 1500.0} for row in made_up(prompts=2)]
        with pytest.raises(ProfileError, match="milliseconds"):
            table(rows)

    def test_a_prompt_has_one_type(self):
        """Two types for one prompt are refused."""
        rows = made_up(prompts=1)
        rows[1] = rows[1] | {"type": "other"}
        with pytest.raises(ProfileError, match="has the types"):
            table(rows)

    def test_types_can_come_from_another_file(self, tmp_path):
        """`types` names each prompt's type, over the table's own."""
        rows = made_up(prompts=2, kinds={"plain": 0.0})
        data, kinds = tmp_path / "rows.jsonl", tmp_path / "types.csv"
        data.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        kinds.write_text("prompt_id,type\nplain-0,a\nplain-1,b\n", encoding="utf-8")
        read = read_outcomes(data, types=kinds)
        assert {row.prompt: row.type for row in read.rows} == {"plain-0": "a", "plain-1": "b"}

    @pytest.mark.parametrize("name", ["rows.xlsx", "none.csv", "broken.parquet", "broken.jsonl"])
    def test_what_is_no_table_is_refused_in_words(self, tmp_path, name):
        """Another suffix, no file, no Parquet, no JSON: a ProfileError that names the file."""
        if name.startswith("broken"):
            (tmp_path / name).write_bytes(b"{no")
        with pytest.raises(ProfileError, match=name):
            read_outcomes(tmp_path / name)

    def test_every_column_is_documented(self):
        """docs/profiles.md has a line for each column."""
        from pathlib import Path

        text = (Path(__file__).resolve().parents[1] / "docs" / "profiles.md").read_text("utf-8")
        for column in COLUMNS:
            assert f"| `{column.name}`" in text
            assert all(f"`{other}`" in text for other in column.also)


class TestFit:
    def test_the_profile_reads_back(self):
        """What was fitted is a valid profile file."""
        profile = fitted(made_up()).profile
        again = parse_profile(dump_profile(profile), origin="x")
        assert again.actions == profile.actions
        assert sorted(again.types) == ["easy", "general", "hard", "plain"]

    def test_a_cap_is_replayed_from_uncapped_runs(self):
        """R(64) counts answers complete by 64 tokens; the tokens are cut there."""
        rows = made_up(kinds={"plain": 0.0})
        profile = fitted(rows, prune=False).profile
        mine = [row for row in rows if row["model"] == "large"]
        cell = cells(profile, "plain")[Action("large", 64)]
        share = sum(r["reward"] * (r["complete_tokens"] <= 64) for r in mine)
        share /= sum(r["reward"] for r in mine)
        whole = top(profile, "plain", "large")
        assert cell.reward == pytest.approx(whole.reward * share, abs=0.03)
        assert cell.output_mean == pytest.approx(
            sum(min(r["output_tokens"], 64) for r in mine) / len(mine)
        )
        assert cell.cut == pytest.approx(sum(r["output_tokens"] > 64 for r in mine) / len(mine))

    def test_hidden_reasoning_has_only_the_caps_that_were_sent(self):
        """With an effort no cap is replayed; an uncapped run stands for the cap that holds it."""
        rows = [row | {"reasoning_effort": "low"} for row in made_up(kinds={"plain": 0.0})]
        longest = max(row["output_tokens"] for row in rows if row["model"] == "large")
        actions = fitted(rows).profile.actions
        caps = [a.max_tokens for a in actions if a.model == "large"]
        assert caps == [1 << (longest - 1).bit_length()]
        sent = [row | {"max_tokens": 8192} for row in rows]
        assert {a.max_tokens for a in fitted(sent).profile.actions} == {8192}

    def test_capped_and_uncapped_runs_are_used_together(self):
        """A run under a cap tells of every smaller cap; of larger ones only if it cut none."""
        free = made_up(kinds={"plain": 0.0})
        capped = [
            row
            | {
                "max_tokens": 256,
                "prompt_id": "more-" + row["prompt_id"],
                "output_tokens": min(row["output_tokens"], 256),
                "complete_tokens": min(row["complete_tokens"], 256),
            }
            for row in made_up(seed=2, kinds={"plain": 0.0})
        ]
        found = cells(fitted([*free, *capped], prune=False).profile, "plain")
        assert found[Action("large", 64)].n == found[Action("large", 256)].n == 120
        assert found[Action("large", 1024)].n == 60
        uncut = [row for row in capped if row["output_tokens"] < 256]
        found = cells(fitted([*free, *uncut], prune=False).profile, "plain")
        assert found[Action("large", 1024)].n == 60 + sum(r["model"] == "large" for r in uncut)

    def test_a_mean_is_pulled_to_what_the_others_say(self):
        """With few samples the fit lies nearer the truth than raw means, over many tables."""
        raw, shrunk = 0.0, 0.0
        for seed in range(12):
            rows = made_up(prompts=15, seed=seed)
            profile = fitted(rows).profile
            for kind, ease in HARD.items():
                for model, able in ABLE.items():
                    own = [r["reward"] for r in rows if (r["type"], r["model"]) == (kind, model)]
                    truth = min(1.0, able + ease)
                    raw += (sum(own) / len(own) - truth) ** 2
                    shrunk += (top(profile, kind, model).reward - truth) ** 2
        assert shrunk < 0.9 * raw

    def test_what_nobody_measured_is_pooled(self):
        """A model without answers to a type gets an estimate, n = 0, near the truth."""
        rows = made_up(prompts=200, skip={("hard", "large")})
        cell = top(fitted(rows).profile, "hard", "large")
        assert (cell.source, cell.n) == ("pooled", 0)
        assert cell.reward == pytest.approx(0.65, abs=0.1)
        assert cell.reward_se > top(fitted(rows).profile, "easy", "large").reward_se

    def test_too_little_to_pool_leaves_a_gap_and_says_so(self):
        """With two types nothing is predicted: the cell is missing and a note tells why."""
        kinds = {"easy": 0.1, "hard": -0.2}
        made = fitted(made_up(kinds=kinds, skip={("hard", "large")}))
        assert all(
            cell is None for a, cell in cells(made.profile, "hard").items() if a.model == "large"
        )
        assert any("Nothing was pooled" in note for note in made.notes)

    def test_shares_are_those_of_the_prompts_unless_said(self):
        """Types weigh by their prompts; `shares` says otherwise, and must fit the types."""
        rows = [*made_up(prompts=30), *made_up(prompts=60, seed=5, kinds={"more": 0.0})]
        assert fitted(rows).profile.types["more"].share == pytest.approx(0.4)
        even = dict.fromkeys(["easy", "hard", "more", "plain"], 0.25)
        assert fitted(rows, shares=even).profile.types["more"].share == 0.25
        with pytest.raises(ProfileError, match="shares"):
            fitted(rows, shares={"more": 1.0})

    def test_general_is_the_mixture(self):
        """Each general reward is the share-weighted mean of the types'."""
        profile = fitted(made_up()).profile
        for i, cell in enumerate(profile.cells["general"]):
            mean = sum(profile.types[k].share * profile.cells[k][i].reward for k in HARD)
            assert cell.reward == pytest.approx(mean)

    def test_a_table_without_types_is_general(self):
        """All of it is the one type that every profile has."""
        rows = [{k: v for k, v in row.items() if k != "type"} for row in made_up(prompts=20)]
        profile = fitted(rows).profile
        assert list(profile.types) == ["general"]
        assert profile.types["general"].share == 1

    def test_bills_tell_tokens(self):
        """Where a provider hides tokens, (cost − input · price) / price gives them."""
        rows = made_up(kinds={"plain": 0.0})
        billed = []
        for row in rows:
            per_input, per_output = PRICES[row["model"]]
            cost = 100 * per_input + row["output_tokens"] * per_output
            rest = {k: v for k, v in row.items() if k not in {"output_tokens", "complete_tokens"}}
            billed.append(rest | {"cost_usd": cost})
        one = top(fitted(billed).profile, "plain", "large")
        other = top(fitted(rows).profile, "plain", "large")
        assert one.output_mean == pytest.approx(other.output_mean)

    def test_bills_without_prices_are_refused(self):
        """Tokens cannot be told from a bill of a model without a price."""
        rows = [{"id": "a", "model": "unknown", "score": 1, "cost_usd": 0.01, "input_tokens": 10}]
        with pytest.raises(ProfileError, match="unknown have cost_usd but no output_tokens"):
            fitted(rows)

    def test_a_model_without_a_price_is_kept_and_told(self):
        """Its cells stay as measured; the fit says that it has no price."""
        rows = [row | {"model": "mine"} for row in made_up(kinds={"plain": 0.0})]
        made = fitted(rows)
        assert made.unpriced == ("mine",)
        assert any("mine" in line for line in made.lint)

    def test_latency_is_known_where_no_cap_cut(self):
        """Mean and p95 seconds stand at the cap that cuts nothing, and nowhere else."""
        rows = [
            row | {"latency_s": row["output_tokens"] / 50} for row in made_up(kinds={"plain": 0.0})
        ]
        found = cells(fitted(rows, prune=False).profile, "plain")
        whole = top(fitted(rows).profile, "plain", "large")
        assert whole.latency_mean == pytest.approx(whole.output_mean / 50)
        assert whole.latency_p95 == pytest.approx(whole.output_p95 / 50)
        assert found[Action("large", 64)].latency_mean is None

    def test_chain_of_thought_sends_its_instruction(self):
        """A way with cot sends 14 tokens more than the bare prompt."""
        rows = [
            row | {"cot": cot} for cot in (False, True) for row in made_up(kinds={"plain": 0.0})
        ]
        found = cells(fitted(rows).profile, "plain")
        factors = {a.cot: cell.input_factor for a, cell in found.items()}
        assert factors == {False: 1.0, True: pytest.approx(1.14)}

    def test_prompts_that_differ_by_way_are_told(self):
        """Ways that were asked other prompts cannot be compared without saying so."""
        rows = made_up(kinds={"plain": 0.0})
        own = [
            row | {"prompt_id": row["prompt_id"] + "x"} if row["model"] == "large" else row
            for row in rows
        ]
        assert not [note for note in fitted(rows).notes if "answered every way" in note]
        assert [note for note in fitted(own).notes if "0 of 120 prompts" in note]

    def test_a_way_that_cannot_win_goes(self):
        """Reasoning that costs more and earns less is no action; with prune = False it stays."""
        plain = made_up(kinds={"plain": 0.0})
        worse = [
            row | {"cot": True, "reward": 0.0 if i % 2 else row["reward"]}
            for i, row in enumerate(plain)
        ]
        kept = fitted([*plain, *worse]).profile
        assert not any(action.cot for action in kept.actions)
        assert any(a.cot for a in fitted([*plain, *worse], prune=False).profile.actions)

    def test_a_cap_that_cuts_nearly_all_goes(self):
        """Of a way's caps those stay that earn at least half of its best."""
        rows = [row | {"output_tokens": 800, "complete_tokens": 800} for row in made_up()]
        assert {a.max_tokens for a in fitted(rows).profile.actions} == {1024}
        every = fitted(rows, prune=False).profile.actions
        assert {a.max_tokens for a in every} == {64, 256, 1024}

    def test_a_name_that_no_file_may_have_is_refused(self):
        """What cannot be read back is not handed out."""
        with pytest.raises(ProfileError, match="name"):
            fit_profile(table(made_up()), FitSettings("x" * 300, created="2026-01-01"))

    def test_what_it_rests_on_is_in_the_file(self):
        """Rows, prompts and counts by type and way, and what the caller said."""
        made = fitted(made_up(), provenance={"licence": "mine"}).profile.provenance
        assert (made["rows"], made["prompts"], made["licence"]) == (540, 180, "mine")
        assert made["answers"]["easy"] == dict.fromkeys(["large", "middle", "small"], 60)


class TestShrinking:
    def test_caps_follow_their_way(self):
        """Smaller caps are scaled as the largest was; the ratio comes from lengths, not luck."""
        actions = [Action(m, cap) for m in "abcdef" for cap in (64, 1024)]
        rewards = [0.3, 0.35, 0.42, 0.44, 0.45, 0.62]
        row = [Cell(30, share * reward, 0.09, 50.0) for reward in rewards for share in (0.5, 1.0)]
        costs = [10.0**i * share for i in range(6) for share in (0.5, 1.0)]
        better = shrink_ways(actions, row, costs)
        assert [b.reward / a.reward for a, b in zip(better[::2], better[1::2], strict=True)] == (
            pytest.approx([2.0] * 6)
        )
        assert better[-1].reward < 0.62

    def test_hidden_reasoning_shrinks_cap_by_cap(self):
        """Caps that were each measured are ways of their own."""
        actions = [Action("m", 64 * 4**i, reasoning_effort="low") for i in range(5)]
        row = [Cell(20, reward, 0.1, 50.0) for reward in (0.2, 0.5, 0.4, 0.6, 0.62)]
        better = shrink_ways(actions, row, [1.0, 4.0, 16.0, 64.0, 256.0])
        ratios = {round(b.reward / a.reward, 6) for a, b in zip(row, better, strict=True)}
        assert len(ratios) > 1


class TestCertainty:
    def test_an_interval_narrows_with_its_error(self):
        """A fourth of the error, about a fourth of the interval; it stays inside 0 and 1."""
        wide, narrow = Cell(10**6, 0.9, 0.08, 1.0), Cell(10**6, 0.9, 0.02, 1.0)
        spans = [high - low for low, high in (interval(wide), interval(narrow))]
        assert spans[0] > 3 * spans[1]
        assert interval(replace(wide, n=0, source="pooled"))[1] == 1.0

    def test_a_clear_winner_is_always_on_the_hull(self):
        """What beats the rest by many errors stays in every draw; what loses never wins."""
        cells_ = [Cell(100, r, 0.01, 1.0) for r in (0.2, 0.1, 0.9)]
        actions = [Action(m, 9) for m in "abc"]
        shares = hull_shares(actions, cells_, [1.0, 2.0, 3.0], luck=random.Random(0))
        assert shares == [1.0, 0.0, 1.0]

    def test_a_tie_is_drawn_both_ways(self):
        """Two actions that differ by less than their error are each on the hull sometimes."""
        cells_ = [Cell(100, r, 0.05, 1.0) for r in (0.50, 0.51)]
        actions = [Action(m, 9) for m in "ab"]
        shares = hull_shares(actions, cells_, [1.0, 2.0], luck=random.Random(0))
        assert shares[0] == 1.0
        assert 0.3 < shares[1] < 0.8
