"""Logs that inspect_ai and lm-evaluation-harness write today, run here with their mock models.

The tools are no dependency of ours. `BUDGETROUTE_TOOLS_PYTHON` names a Python that has them; without it
the one that runs the tests is asked.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from budgetroute.errors import ProfileError
from budgetroute.profiling.imports import ImportSettings, import_logs

HELPER = Path(__file__).resolve().parent / "helpers" / "inspect_run.py"
PYTHON = os.environ.get("BUDGETROUTE_TOOLS_PYTHON", sys.executable)
TASK = """\
task: quiz
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: generate_until
doc_to_text: "Q: {{{{question}}}} A:"
doc_to_target: "{{{{answer}}}}"
generation_kwargs: {{until: ["\\n"], max_gen_toks: 32, do_sample: false}}
metric_list: [{{metric: exact_match, aggregation: mean, higher_is_better: true}}]
"""


def tool(name):
    """Skip unless that Python has the tool."""
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({name!r}) is None)"
    if subprocess.run([PYTHON, "-c", code], check=False).returncode:
        pytest.skip(f"{name} is not installed for {PYTHON}; see BUDGETROUTE_TOOLS_PYTHON")


def run(folder, *args):
    """Run the tools' Python offline, as if nothing of ours were there."""
    import litellm

    kept = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    tokenizers = Path(litellm.__file__).parent / "litellm_core_utils" / "tokenizers"
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    done = subprocess.run(
        [PYTHON, *map(str, args)],
        cwd=folder,
        env=kept | offline | {"TIKTOKEN_CACHE_DIR": str(tokenizers)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("form", ["json", "eval"])
def test_inspect(tmp_path, form):
    """A log of inspect_ai in both forms: two epochs, cached and hidden tokens in their places."""
    tool("inspect_ai")
    run(tmp_path, HELPER, tmp_path, form)
    made = import_logs([*tmp_path.glob(f"*.{form}")], ImportSettings(scorers=("includes",)))
    assert str(made.coverage) == "2 prompts × 1 action, 100 % complete"
    told = {(r["input_tokens"], r["output_tokens"], r["max_tokens"]) for r in made.rows}
    assert (len(made.rows), told) == (4, {(21, 30, 64)})
    assert {row["reasoning_effort"] for row in made.rows} == {"low"}


def test_inspect_with_several_calls(tmp_path):
    """A solver that calls the model three times for one sample gives no outcome of one call."""
    tool("inspect_ai")
    run(tmp_path, HELPER, tmp_path, "eval", "critic")
    with pytest.raises(ProfileError, match="4 took several calls"):
        import_logs([*tmp_path.glob("*.eval")], ImportSettings(scorers=("includes",)))


def test_lm_eval(tmp_path):
    """Samples of lm-evaluation-harness with its results file beside them."""
    tool("lm_eval")
    questions = [("What is 17 + 25?", "42"), ("Which planet is the largest?", "Jupiter")]
    lines = (json.dumps({"question": q, "answer": a}) for q, a in questions)
    (tmp_path / "quiz.jsonl").write_text("\n".join(lines), encoding="utf-8")
    task = TASK.format(data=tmp_path / "quiz.jsonl")
    (tmp_path / "quiz.yaml").write_text(task, encoding="utf-8")
    asked = ("--model", "dummy", "--tasks", "quiz", "--include_path", tmp_path)
    run(tmp_path, "-m", "lm_eval", *asked, "--output_path", tmp_path / "out", "--log_samples")
    [samples] = (tmp_path / "out").rglob("samples_*.jsonl")
    made = import_logs([samples], ImportSettings(count_tokens=True))
    assert made.scorers == {"quiz": "exact_match,none"}
    assert {(r["model"], r["max_tokens"], r["reward"]) for r in made.rows} == {("dummy", 32, 0.0)}
    assert all(row["output_tokens"] > 0 for row in made.rows)
