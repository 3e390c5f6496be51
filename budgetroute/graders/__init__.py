"""What an answer is worth: graders from exact match to code tests and model judges.

`extraction` finds the final answer in what a model wrote, `numbers` and `normal` give answers that
mean the same one spelling; the scorers grade one response; `Panel` grades all choices of a call;
`specs` builds graders by name. Libraries of single graders are imported at their first use.
"""

from budgetroute.graders.extraction import Found, final_answer, unfenced, without_thoughts
from budgetroute.graders.judge import Bench, JudgeVerifier, PairwiseJudge, RubricJudge
from budgetroute.graders.normal import choice_of, normalised, number_of
from budgetroute.graders.numbers import Number, numbers_in, only_number
from budgetroute.graders.overlap import BertScore, RougeL
from budgetroute.graders.panel import Panel, Scorer, Voter
from budgetroute.graders.plain import CallableScorer, Choice, Contains, Exact, Numeric, Regex
from budgetroute.graders.programs import CodeTests
from budgetroute.graders.sandbox import Limits, Ran, run_python
from budgetroute.graders.specs import KINDS, GraderSpec, build_grader, grader_spec
from budgetroute.graders.structured import JsonSchema

__all__ = [
    "KINDS",
    "Bench",
    "BertScore",
    "CallableScorer",
    "Choice",
    "CodeTests",
    "Contains",
    "Exact",
    "Found",
    "GraderSpec",
    "JsonSchema",
    "JudgeVerifier",
    "Limits",
    "Number",
    "Numeric",
    "PairwiseJudge",
    "Panel",
    "Ran",
    "Regex",
    "RougeL",
    "RubricJudge",
    "Scorer",
    "Voter",
    "build_grader",
    "choice_of",
    "final_answer",
    "grader_spec",
    "normalised",
    "number_of",
    "numbers_in",
    "only_number",
    "run_python",
    "unfenced",
    "without_thoughts",
]
