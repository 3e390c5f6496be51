"""Logs of evaluation tools become one table of outcomes, and say what they do not know."""

from __future__ import annotations

import json
import stat
import zipfile
from pathlib import Path

import pytest

from budgetroute.errors import ProfileError
from budgetroute.profiling import fit_profile, read_outcomes
from budgetroute.profiling.imports import (
    ImportSettings,
    Sent,
    archive,
    gathering,
    import_logs,
    save_outcomes,
    save_prompts,
    sources,
)

EXAMPLES = Path(__file__).resolve().parents[1] / "examples" / "imports"
SAMPLES = EXAMPLES / "samples_quiz_2026-11-29T12-00-00.000000.jsonl"
RESULTS = "results_2026-11-29T12-00-00.000000.json"
PRODUCED = EXAMPLES / "inspect_produced.eval"


def imported(*names, **said):
    return import_logs([EXAMPLES / name for name in names], ImportSettings(**said))


def rows_of(made, **wanted):
    return [row for row in made.rows if all(row.get(k) == v for k, v in wanted.items())]


def changed(tmp_path, name, change, *, into=None):
    """Write an example again after a change to what its JSON says."""
    content = json.loads((EXAMPLES / name).read_text("utf-8"))
    change(content)
    path = tmp_path / (into or name)
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def sample(usage=None, **more):
    """Return a sample of inspect_ai."""
    output = {"choices": [{"message": {"content": "4"}, "stop_reason": "stop"}], "usage": usage}
    return {
        "id": 1,
        "epoch": 1,
        "input": "What is 2 + 2?",
        "target": "4",
        "messages": [{"role": "assistant", "source": "generate", "content": "4"}],
        "output": output,
        "scores": {"match": {"value": "C"}},
    } | more


def inspect_log(tmp_path, *samples, name="log.json", model="m", config=None, steps=()):
    content = {
        "version": 2,
        "eval": {"task": "sums", "model": model, "model_generate_config": config or {}},
        "plan": {"steps": [{"solver": step} for step in steps], "config": {}},
        "samples": list(samples),
    }
    path = tmp_path / name
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


USAGE = {"input_tokens": 9, "output_tokens": 5, "total_tokens": 14}


class TestFormats:
    def test_inspect_json(self):
        """Two models' logs are two actions on the same prompts; letters are rewards."""
        made = imported("inspect_quiz_mini.json", "inspect_quiz_large.json", scorers=("match",))
        assert str(made.coverage) == "4 prompts × 2 actions, 100 % complete"
        assert [r["reward"] for r in rows_of(made, model="openai/gpt-4o-mini")] == [1, 1, 1, 0]
        assert {r["type"] for r in made.rows} == {"quiz"}
        assert {r["max_tokens"] for r in made.rows} == {256}

    def test_inspect_archive(self):
        """An .eval as inspect_ai packs it: both epochs, settings and the whole usage."""
        pytest.importorskip("pyarrow", reason="Zstandard is read with pyarrow")
        made = imported(PRODUCED.name, scorers=("includes",), type_from="topic")
        assert str(made.coverage) == "2 prompts × 1 action, 100 % complete"
        assert sorted({r["type"] for r in made.rows}) == ["facts", "numbers"]
        for row in made.rows:
            assert (row["input_tokens"], row["output_tokens"], row["reasoning_tokens"]) == (
                21,
                30,
                20,
            )
            assert (row["max_tokens"], row["reasoning_effort"]) == (64, "low")
        assert len(made.rows) == 4

    def test_promptfoo(self):
        """Tests × providers; settings by label; what came from its cache has no usage."""
        models = {"mini": "gpt-4o-mini", "thinks": "o4-mini"}
        made = imported("promptfoo.json", models=models)
        assert made.left_out == {gathering.NO_USAGE: 1}
        assert str(made.coverage) == "4 prompts × 2 actions, 88 % complete"
        assert made.coverage.lone == 1
        row = rows_of(made, model="o4-mini")[0]
        assert (row["max_tokens"], row["reasoning_effort"]) == (2048, "low")
        assert (row["output_tokens"], row["reasoning_tokens"], row["latency_s"]) == (72, 64, 0.6)

    def test_lm_eval(self):
        """A filter is a scorer; the model stands in the results file; tokens only if asked for."""
        made = imported(SAMPLES.name, scorers=("exact_match,flexible",), count_tokens=True)
        assert [row["reward"] for row in made.rows] == [1, 1, 1, 0]
        assert {row["model"] for row in made.rows} == {"gpt-4o-mini"}
        assert {row["token_basis"] for row in made.rows} == {"o200k"}
        assert made.counted == 4

    @pytest.mark.parametrize("name", ["own.csv", "own.jsonl"])
    def test_own_tables(self, name):
        """Tables of outcomes keep ids, types and tokens, and are what fit reads directly."""
        made = imported(name)
        assert made.outcomes.rows == read_outcomes(EXAMPLES / name).rows

    def test_all_in_one(self, tmp_path):
        """A table written from logs joins others; Parquet and JSON lines say the same."""
        pytest.importorskip("pyarrow")
        made = imported("promptfoo.json", type="quiz")
        for name in ("a.parquet", "a.jsonl"):
            save_outcomes(made.rows, tmp_path / name)
            assert read_outcomes(tmp_path / name).rows == made.outcomes.rows
        both = import_logs([tmp_path / "a.parquet", EXAMPLES / "own.csv"])
        assert len(both.rows) == 7 + 8
        assert fit_profile(both.outcomes, "both").profile.actions


class TestTokens:
    @pytest.mark.parametrize(
        ("usage", "given", "made"),
        [
            (dict(USAGE, input_tokens_cache_read=100, total_tokens=114), 109, 5),
            (dict(USAGE, input_tokens_cache_read=4), 9, 5),
            (dict(USAGE, input_tokens_cache_write=100, total_tokens=0), 109, 5),
            (dict(USAGE, reasoning_tokens=3), 9, 5),
            (dict(USAGE, reasoning_tokens=3, total_tokens=17), 9, 8),
            (dict(USAGE, reasoning_tokens=50, total_tokens=0), 9, 55),
        ],
    )
    def test_conventions_are_told_by_the_total(self, tmp_path, usage, given, made):
        """Cached input is inside input, hidden reasoning inside output, wherever the tool had them."""
        row = import_logs([inspect_log(tmp_path, sample(usage))]).rows[0]
        assert (row["input_tokens"], row["output_tokens"]) == (given, made)

    def test_unknown_usage_stays_unknown(self, tmp_path):
        """Without usage a call is left out and counted, never taken for free."""
        path = inspect_log(tmp_path, sample(USAGE), sample(None, epoch=2))
        made = import_logs([path])
        assert (len(made.rows), made.left_out) == (1, {gathering.NO_USAGE: 1})

    def test_nothing_with_usage_is_an_error(self):
        """The error says what was found, and what to do."""
        with pytest.raises(ProfileError, match=r"4 without usage.*--count-tokens"):
            imported(SAMPLES.name, scorers=("exact_match,strict",))

    def test_zeros_are_no_usage(self, tmp_path):
        """promptfoo writes zeros for a provider that reports nothing."""

        def change(content):
            for row in content["results"]["results"]:
                row["tokenUsage"] = {"prompt": 0, "completion": 0, "total": 0, "numRequests": 1}

        with pytest.raises(ProfileError, match="8 without usage"):
            import_logs([changed(tmp_path, "promptfoo.json", change)])

    def test_what_a_cache_answered_has_no_usage(self, tmp_path):
        """What promptfoo's own cache answered took neither its tokens nor its time, whatever it says."""

        def change(content):
            content["results"]["results"][0]["response"]["cached"] = True

        left = import_logs([changed(tmp_path, "promptfoo.json", change)]).left_out
        assert left == {gathering.NO_USAGE: 2}

    def test_hidden_reasoning_is_not_counted(self, tmp_path):
        """What a model thought out of sight is in no text: with an effort nothing is counted."""
        path = inspect_log(tmp_path, sample(None), config={"reasoning_effort": "high"})
        with pytest.raises(ProfileError, match="1 without usage"):
            import_logs([path], ImportSettings(count_tokens=True))


class TestScorers:
    def test_several_must_be_chosen(self):
        """Two scorers are an error that lists them."""
        with pytest.raises(ProfileError, match=r"2 scorers: brevity, match; --scorer NAME"):
            imported("inspect_quiz_mini.json")

    def test_over_files_too(self, tmp_path):
        """Two logs of one task, each graded by another scorer, are not one scale."""
        other = sample(USAGE, scores={"judge": {"value": 0.3}})
        paths = [
            inspect_log(tmp_path, sample(USAGE), name="a.json"),
            inspect_log(tmp_path, other, name="b.json", model="n"),
        ]
        with pytest.raises(ProfileError, match="2 scorers: judge, match"):
            import_logs(paths)
        made = import_logs(paths, ImportSettings(scorers=("match",)))
        assert made.left_out == {gathering.NOT_GRADED: 1}

    def test_named_scores_count(self, tmp_path):
        """Named scores of promptfoo are scorers beside the total."""

        def change(content):
            content["results"]["results"][0]["namedScores"] = {"tone": 0.2}

        path = changed(tmp_path, "promptfoo.json", change)
        with pytest.raises(ProfileError, match="2 scorers: score, tone"):
            import_logs([path])
        assert import_logs([path], ImportSettings(scorers=("tone",))).left_out == {
            gathering.NOT_GRADED: 7
        }

    def test_an_unknown_one_is_refused(self):
        """A scorer that no log has is an error that lists those there are."""
        with pytest.raises(ProfileError, match="--scorer x: the logs have brevity, match"):
            imported("inspect_quiz_mini.json", scorers=("match", "x"))

    @pytest.mark.parametrize("value", [7, -1, "seven", float("inf"), [1], {"a": [1]}, 10**400])
    def test_what_is_no_reward_is_refused(self, tmp_path, value):
        """A grade outside the scale is an error that names --scale or what is allowed."""
        path = inspect_log(tmp_path, sample(USAGE, scores={"judge": {"value": value}}))
        with pytest.raises(ProfileError, match="allowed is"):
            import_logs([path])

    def test_a_scale_maps_grades(self, tmp_path):
        """--scale says which grades are worth 0 and 1; a list with two values has two scorers."""
        path = inspect_log(tmp_path, sample(USAGE, scores={"judge": {"value": {"style": 4}}}))
        made = import_logs([path], ImportSettings(scale=(1, 10)))
        assert (made.rows[0]["reward"], made.scorers) == (
            pytest.approx(1 / 3),
            {"sums": "judge.style"},
        )

    def test_less_is_better_must_be_turned_round(self, tmp_path):
        """A metric of which less is better is refused until the scale is turned."""
        lines = SAMPLES.read_text("utf-8")
        (tmp_path / SAMPLES.name).write_text(lines, encoding="utf-8")

        def change(content):
            content["higher_is_better"]["quiz"]["exact_match"] = False

        changed(tmp_path, RESULTS, change)
        said = {"scorers": ("exact_match,strict",), "count_tokens": True}
        with pytest.raises(ProfileError, match="less is better"):
            import_logs([tmp_path / SAMPLES.name], ImportSettings(**said))
        made = import_logs([tmp_path / SAMPLES.name], ImportSettings(**said, scale=(1, 0)))
        assert [row["reward"] for row in made.rows] == [0, 0, 1, 1]


class TestActions:
    def test_settings_of_the_call_win(self, tmp_path):
        """The call's own settings over the task's over the model's; the solver tells cot."""
        event = {"event": "model", "config": {"max_tokens": 32}}
        path = inspect_log(
            tmp_path,
            sample(USAGE, events=[event, {"event": "model", "role": "grader", "config": {}}]),
            config={"max_tokens": 99, "temperature": 0.5},
            steps=("chain_of_thought",),
        )
        row = import_logs([path]).rows[0]
        assert (row["max_tokens"], row["temperature"], row["cot"]) == (32, 0.5, True)

    def test_options_fill_gaps_and_contradict_nothing(self, tmp_path):
        """A cap that was given fills the gap; another than the log's is an error."""
        path = inspect_log(tmp_path, sample(USAGE))
        given = ImportSettings(given=Sent(128, cot=True, effort="low"))
        row = import_logs([path], given).rows[0]
        assert (row["max_tokens"], row["cot"], row["reasoning_effort"]) == (128, True, "low")
        with pytest.raises(ProfileError, match="max_tokens is 256, not 128"):
            imported("inspect_quiz_mini.json", given=Sent(128))

    def test_a_cut_without_a_cap_is_refused(self, tmp_path):
        """Answers that were cut are not dropped, which would favour short ones: the cap is asked for."""
        cut = sample(USAGE)
        cut["output"]["choices"][0]["stop_reason"] = "max_tokens"
        path = inspect_log(tmp_path, cut)
        with pytest.raises(ProfileError, match="--max-tokens N"):
            import_logs([path])
        assert import_logs([path], ImportSettings(given=Sent(5))).rows[0]["max_tokens"] == 5

    @pytest.mark.parametrize(
        ("more", "reason"),
        [
            ({"error": {"message": "x"}}, "error"),
            ({"limit": {"type": "token"}}, "limit"),
            ({"messages": [{"role": "assistant", "source": "generate"}] * 2}, "several calls"),
            ({"events": [{"event": "model"}] * 2}, "several calls"),
            ({"scores": None}, "not graded"),
            ({"scores": {"match": {"value": float("nan")}}}, "not graded"),
        ],
    )
    def test_what_is_no_graded_call_is_left_out(self, tmp_path, more, reason):
        """Errors, agents and ungraded samples are left out, each counted by its reason."""
        made = import_logs([inspect_log(tmp_path, sample(USAGE), sample(USAGE, **more))])
        assert len(made.rows) == 1
        [(said, count)] = made.left_out.items()
        assert reason in said
        assert count == 1

    def test_a_model_that_is_not_there(self):
        """A mapping of a model that no log has is an error that lists those there are."""
        with pytest.raises(ProfileError, match="--model gpt: the logs have openai/gpt-4o-mini"):
            imported("inspect_quiz_mini.json", scorers=("match",), models={"gpt": "x"})

    def test_two_wordings_are_not_mixed(self, tmp_path):
        """Two prompt templates of one test are two ways of asking; one is chosen."""

        def change(content):
            for row in content["results"]["results"][4:]:
                row["promptId"] = "another"

        path = changed(tmp_path, "promptfoo.json", change)
        with pytest.raises(ProfileError, match="2 wordings"):
            import_logs([path])
        assert len(import_logs([path], ImportSettings(template=2)).rows) == 4

    def test_solvers_and_examples_are_wordings_too(self, tmp_path):
        """Another system message is another wording, chain of thought an action's; so are few shots."""
        said = [sample(USAGE)], [sample(USAGE)]
        plain = inspect_log(tmp_path, *said[0], name="a.json", steps=("generate",))
        cot = inspect_log(tmp_path, *said[1], name="b.json", steps=("chain_of_thought", "generate"))
        other = inspect_log(tmp_path, *said[1], name="c.json", steps=("system_message", "generate"))
        assert import_logs([plain, cot]).coverage.actions == 2
        with pytest.raises(ProfileError, match="2 wordings"):
            import_logs([plain, other])
        assert len(import_logs([plain, other], ImportSettings(template=1)).rows) == 1
        with pytest.raises(ProfileError, match="the logs have 2"):
            import_logs([plain, other], ImportSettings(template=3))

    def test_requests_of_several_turns_are_left_out(self, tmp_path):
        """A provider of promptfoo that sent several requests for one test is no single call."""

        def change(content):
            content["results"]["results"][0]["tokenUsage"]["numRequests"] = 3

        left = import_logs([changed(tmp_path, "promptfoo.json", change)]).left_out
        assert any("several calls" in reason for reason in left)

    def test_two_settings_under_one_name(self, tmp_path):
        """Providers that cannot be told apart are refused."""

        def change(content):
            for provider in content["config"]["providers"]:
                provider["label"] = "mini"

        with pytest.raises(ProfileError, match="twice with different settings"):
            import_logs([changed(tmp_path, "promptfoo.json", change)])

    def test_judged_by_likelihood(self, tmp_path):
        """Multiple choice by likelihood generates nothing, so nothing can be learnt of its cost."""
        row = json.loads(SAMPLES.read_text("utf-8").splitlines()[0])
        row["resps"] = [[[-3.2, False]], [[-1.1, True]]]
        (tmp_path / SAMPLES.name).write_text(json.dumps(row), encoding="utf-8")
        changed(tmp_path, RESULTS, lambda content: None)
        with pytest.raises(ProfileError, match="likelihood"):
            import_logs([tmp_path / SAMPLES.name])


class TestSecrecy:
    def test_no_text_of_a_prompt_is_in_the_table_or_profile(self):
        """Ids are digests; neither rows nor profile hold a word of prompt or answer."""
        made = imported("inspect_quiz_mini.json", scorers=("match",))
        said = json.dumps(made.rows) + repr(fit_profile(made.outcomes, "p").profile)
        assert not any(word in said for word in ("planet", "Jupiter", "spider", "not sure"))
        assert made.prompts == ()

    def test_texts_are_kept_only_when_asked_and_for_the_owner(self, tmp_path):
        """Prompts go to a file of their own that others cannot read, joined by id."""
        made = imported("inspect_quiz_mini.json", scorers=("match",), keep_prompts=True)
        save_prompts(made.prompts, tmp_path / "p.jsonl")
        kept = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text("utf-8").splitlines()]
        assert {entry["prompt_id"] for entry in kept} == {row["prompt_id"] for row in made.rows}
        assert "planet" in kept[1]["prompt"]
        assert stat.S_IMODE((tmp_path / "p.jsonl").stat().st_mode) == 0o600

    def test_types_are_no_texts(self, tmp_path):
        """A field that differs with every prompt names no types."""
        samples = [sample(USAGE, input=f"{i}?", metadata={"q": f"text {i}"}) for i in range(65)]
        with pytest.raises(ProfileError, match="65 types"):
            import_logs([inspect_log(tmp_path, *samples)], ImportSettings(type_from="q"))

    def test_errors_tell_no_prompt(self, tmp_path):
        """A grade that cannot be used is told by its place, without the sample's words."""
        bad = sample(USAGE, id="the secret question", scores={"j": {"value": "secret words"}})
        with pytest.raises(ProfileError) as caught:
            import_logs([inspect_log(tmp_path, bad)])
        assert "secret" not in str(caught.value)


def packed(tmp_path, entries, kind=zipfile.ZIP_DEFLATED):
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w", kind) as file:
        for name, content in entries.items():
            file.writestr(name, content)
    return path


HEADER = json.dumps({"version": 2, "eval": {"task": "t", "model": "m"}, "plan": {}})


class TestHostile:
    def test_a_bomb_is_not_unpacked(self, tmp_path, monkeypatch):
        """An entry that unpacks to more than is read is refused, however small it was packed."""
        monkeypatch.setattr(archive, "ENTRY_BYTES", 10**6)
        path = packed(tmp_path, {"header.json": HEADER, "samples/1.json": b" " * 10**7})
        with pytest.raises(ProfileError, match="unpacks to more"):
            import_logs([path])

    def test_many_entries_together_are_bounded(self, tmp_path, monkeypatch):
        """Entries that are small alone are not read without end."""
        monkeypatch.setattr(archive, "ALL_BYTES", 3 * 10**6)
        entries = {f"samples/{i}.json": b" " * 10**6 + b"{}" for i in range(5)}
        with pytest.raises(ProfileError, match="unpacks to more"):
            import_logs([packed(tmp_path, {"header.json": HEADER, **entries})])

    def test_a_zstandard_bomb_is_not_unpacked(self, tmp_path, monkeypatch):
        """The same holds for what inspect_ai packs with Zstandard."""
        pa = pytest.importorskip("pyarrow")
        monkeypatch.setattr(archive, "ENTRY_BYTES", 10**6)
        bomb = pa.Codec("zstd").compress(b" " * 10**7, asbytes=True)
        path = packed(tmp_path, {"header.json": bomb}, zipfile.ZIP_STORED)
        data = path.read_bytes()
        path.write_bytes(data.replace(b"\0\0", b"\x5d\0", 0))
        marked = bytearray(data)
        marked[8] = archive.ZSTANDARD
        listed = data.index(b"PK\x01\x02")
        marked[listed + 10] = archive.ZSTANDARD
        path.write_bytes(marked)
        with pytest.raises(ProfileError, match="unpacks to more"):
            import_logs([path])

    def test_too_many_entries_are_refused_before_they_are_listed(self, tmp_path, monkeypatch):
        """A directory of millions costs no memory."""
        monkeypatch.setattr(archive, "MOST_ENTRIES", 3)
        with pytest.raises(ProfileError, match="more than 3 entries"):
            import_logs([packed(tmp_path, {f"{i}": "" for i in range(5)})])

    def test_a_damaged_archive_is_told(self, tmp_path):
        """Whatever byte is wrong, the error is ours."""
        data = PRODUCED.read_bytes()
        path = tmp_path / "log.eval"
        for place in range(0, len(data), 97):
            path.write_bytes(data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :])
            try:
                import_logs([path], ImportSettings(scorers=("includes",)))
            except ProfileError:
                continue

    def test_a_log_that_is_cut_off(self, tmp_path):
        """Half an archive is refused."""
        path = tmp_path / "log.eval"
        path.write_bytes(PRODUCED.read_bytes()[:3000])
        with pytest.raises(ProfileError, match="not an archive"):
            import_logs([path])

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("", "not JSON"),
            ("[" * 10**5, "not JSON"),
            ("[]", "a list in JSON; expected inspect_ai"),
            ('{"shoes": 1}', "an object with 'shoes'; expected inspect_ai"),
            ('{"eval": {}, "plan": {}, "samples": []}', "no model in it"),
            ('{"eval": {"model": "m"}, "plan": {}}', "no samples in it"),
            ('{"results": {"version": 2, "results": []}}', "version 2; version 3 is read"),
        ],
    )
    def test_what_is_no_log_is_told(self, tmp_path, text, said):
        """The error says what was found and what is read."""
        (tmp_path / "x.json").write_text(text, encoding="utf-8")
        with pytest.raises(ProfileError, match=said):
            import_logs([tmp_path / "x.json"])

    def test_any_shape_of_a_known_log_is_survived(self, tmp_path):
        """Values of another kind anywhere in a log end in an error of ours or in fewer rows."""
        for name, scorer in (("inspect_quiz_mini.json", "match"), ("promptfoo.json", "score")):
            content = json.loads((EXAMPLES / name).read_text("utf-8"))
            for place in list(places(content)):
                for odd in (None, [], {}, "x", -1, True, ["x"], {"a": {}}):
                    path = tmp_path / "x.json"
                    path.write_text(json.dumps(put(content, place, odd)), encoding="utf-8")
                    try:
                        import_logs([path], ImportSettings(scorers=(scorer,)))
                    except ProfileError:
                        continue

    @pytest.mark.parametrize("which", [SAMPLES.name, RESULTS])
    def test_any_shape_of_samples_and_results_is_survived(self, tmp_path, which):
        """The same holds for the two files of lm-evaluation-harness."""
        files = {name: (EXAMPLES / name).read_text("utf-8") for name in (SAMPLES.name, RESULTS)}
        content = json.loads(
            files[which].splitlines()[0] if which == SAMPLES.name else files[which]
        )
        for place in list(places(content)):
            for odd in (None, [], {}, "x", -1, True, ["x"], {"a": {}}):
                changes = files | {which: json.dumps(put(content, place, odd))}
                for name, text in changes.items():
                    (tmp_path / name).write_text(text, encoding="utf-8")
                try:
                    import_logs([tmp_path / SAMPLES.name], ImportSettings(count_tokens=True))
                except ProfileError:
                    continue

    def test_a_large_file_is_refused(self, tmp_path, monkeypatch):
        """A log is read up to a bound, whatever its format."""
        monkeypatch.setattr(sources, "MAX_BYTES", 100)
        with pytest.raises(ProfileError, match="more than 100 bytes"):
            imported("promptfoo.json")

    def test_a_log_named_twice(self):
        """The same file twice would count its calls twice."""
        with pytest.raises(ProfileError, match="named twice"):
            imported("own.csv", "own.csv")

    def test_samples_without_results(self, tmp_path):
        """Without the results file no model is known; the error names the file that is missing."""
        (tmp_path / SAMPLES.name).write_text(SAMPLES.read_text("utf-8"), encoding="utf-8")
        with pytest.raises(ProfileError, match=r"results_2026-11-29T12-00-00\.000000\.json"):
            import_logs([tmp_path / SAMPLES.name])


def places(value, at=()):
    """Yield the path of every second value inside, the first of each list only."""
    if at:
        yield at
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*at, key))
    elif isinstance(value, list) and value:
        yield from places(value[0], (*at, 0))


def put(value, place, odd):
    """Return a copy with one value replaced."""
    if not place:
        return odd
    first, rest = place[0], place[1:]
    copy = value.copy()
    copy[first] = put(value[first], rest, odd)
    return copy
