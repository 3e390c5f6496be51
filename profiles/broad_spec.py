"""What profiles/broad.json is made of: models, tasks, scales and what is said about them."""

from __future__ import annotations

CREATED = "2026-11-29"
CLASSIFIER = "broad-types.npz"
INSTRUCTION_TOKENS = 14
"""Tokens of the chain-of-thought instruction that an action with cot adds to the prompt."""

PLAIN_CAPS = (64, 256, 1024, 4096)
COT_CAPS = (256, 1024, 4096)
THINKING_CAP = 8192

MODELS: dict[str, tuple[str, ...]] = {
    "gpt-4o-mini": ("gpt-4o-mini-2024-07-18", "gpt-4o-mini"),
    "gpt-4.1-mini": ("gpt-4.1-mini", "gpt-4.1-mini-2025-04-14"),
    "gpt-4.1": ("gpt-4.1", "gpt-4.1-2025-04-14"),
    "gpt-4o": ("gpt-4o-2024-08-06", "gpt-4o-2024-11-20"),
    "meta.llama3-1-8b-instruct-v1:0": ("Meta-Llama-3.1-8B-Instruct", "llama-3.1-8b-instruct"),
    "meta.llama3-1-70b-instruct-v1:0": ("Meta-Llama-3.1-70B-Instruct", "llama-3.1-70b-instruct"),
    "mistral.mixtral-8x7b-instruct-v0:1": ("Mixtral-8x7B-Instruct-v0.1",),
    "anthropic.claude-3-5-haiku-20241022-v1:0": ("claude-3-5-haiku-20241022",),
    "anthropic.claude-3-5-sonnet-20241022-v2:0": (
        "claude-3-5-sonnet-20241022",
        "claude-3.5-sonnet-new",
    ),
    "anthropic.claude-3-7-sonnet-20250219-v1:0": ("claude-3.7-thinking-4k",),
}
"""The profile's models: key of litellm's price map → names in the data, best first; the first
price of models.csv weighs costs while fitting (the profile itself stores tokens, not dollars)."""

RETIRED: dict[str, tuple[str, ...]] = {
    "gpt-3.5-turbo": ("gpt-3.5-turbo-0125", "gpt-3.5-turbo", "gpt-3.5-turbo-0613"),
    "gpt-4": ("gpt-4-0314", "gpt-4", "gpt-4-0613"),
    "o4-mini": ("o4-mini-high-long", "o4-mini (high)"),
}
"""Models that their provider no longer serves (the price map: 2026-10-23): evidence, no actions."""

THINKING = {"anthropic.claude-3-7-sonnet-20250219-v1:0": "high"}
"""Effort high is a thinking budget of 4,096 tokens there, which is what was measured."""
OPENAI = frozenset({"gpt-4o-mini", "gpt-4.1-mini", "gpt-4.1", "gpt-4o"})

SAME_MODEL = {
    "Mistral Large 2 (2407)": "Mistral-Large-2",
    "mistral-large-2407": "Mistral-Large-2",
    "DeepSeek-Coder-V2": "deepseek-v2-coder-0614",
    "DeepSeek Coder V2 0724": "deepseek-v2-coder-0724",
    "DeepSeek Chat V2 0628": "deepseek-v2-chat-0628",
    "DeepSeek V2.5": "deepseek-v2.5-0908",
    "DeepSeek Chat V2.5": "deepseek-v2.5-0908",
    "DeepSeek V3 (0324)": "deepseek-chat-v3-0324",
    "DeepSeek Chat V3 (prev)": "DeepSeek-V3",
    "deepseek-chat": "DeepSeek-V3",
    "DeepSeek R1": "deepseek-r1",
    "DeepSeek R1 (0528)": "deepseek-r1-0528",
    "QwQ-32B": "QwQ-32b",
    "Qwen2 72B Instruct": "Qwen2-72B-Instruct",
    "qwen-2.5-72b-instruct (bf16)": "Qwen2.5-72B-Instruct",
    "Phi-3-mini-128k-instruct": "Phi-3-mini-4k-instruct",
    "c4ai-command-r-v01": "command-r",
    "open-mistral-nemo-2407": "Mistral-Nemo-Instruct-2407",
    "gemini-1.5-pro-exp-0827": "gemini-1.5-pro-002",
    "gemini-1.5-flash-exp-0827": "gemini-1.5-flash-002",
    "gemini-1.5-pro-preview-0409": "gemini-1.5-pro",
    "claude-3.5-sonnet-20240620": "claude-3-5-sonnet-20240620",
    "claude-3-7-sonnet-20250219 (no thinking)": "claude-3.7-sonnet",
    "claude-sonnet-4-20250514 (no thinking)": "claude-sonnet-4",
    "claude-opus-4-20250514 (no think)": "claude-opus-4",
    "gemini-2.5-flash-preview-05-20 (no think)": "gemini-2.5-flash-preview-05-20",
    "gemini-2.5-flash-preview-05-20 (24k think)": "gemini-2.5-flash-preview-05-20:thinking",
    "Gemini 2.5 Pro Preview 05-06": "gemini-2.5-pro-preview-05-06",
    "Gemini 2.5 Pro Preview 03-25": "gemini-2.5-pro-preview-03-25",
    "Grok 3 Beta": "grok-3-beta",
    "gemma-3-27b-it": "gemma-3-27b",
    "Llama 4 Maverick": "llama-4-maverick",
    "Quasar Alpha": "quasar-alpha",
    "Optimus Alpha": "optimus-alpha",
}
"""Names of one model under several sources; a link makes their tasks comparable."""

TASKS: dict[str, dict[str, float]] = {
    "math": {"gsm": 0.3, "math-l5": 0.3, "aqua-rat": 0.2, "sat-math": 0.2},
    "knowledge": {"mmlu_pro": 0.5, "arc-challenge": 0.25, "med-mcqa": 0.25},
    "reasoning": {"hella-swag": 0.25, "logiqa-en": 0.25, "lsat-ar": 0.25, "lsat-lr": 0.25},
    "reading": {"lsat-rc": 0.5, "sat-en": 0.5},
    "code": {"crux": 0.5, "canaicode_junior-v2": 0.25, "canaicode_senior": 0.25},
    "chat": {"wildbench": 1.0},
}
"""The scale of each type: a fixed mix of tasks, the same for every model."""

NATURAL = frozenset({"code", "chat"})
"""Types whose prompts say themselves how to answer; chain of thought on / off was not measured."""

EVIDENCE = frozenset({
    "numersense-v2", "mmlu_pro_math", "mmlu_direct", "gsm8k_fewshot", "mt_bench_chat", "humaneval",
    "mbpp", "misguided", "lrm_knowledge", "lrm_math", "lrm_logic_puzzle", "aider_edit",
    "aider_polyglot",
})  # fmt: skip
"""Tasks that only tell how able a model is; their scales enter no cell."""

SOURCES = (
    "zeroeval", "mmlu_pro", "renze_mcqa", "routellm", "wildbench", "lrm_token_economy",
    "misguided_attention", "can_ai_code", "ldb_seed",
)  # fmt: skip

GOOD_FOR = "a start on mixed traffic: exact-match questions in math, knowledge, reasoning, reading and code"
NOT_FOR = (
    "the level of your own traffic; chat (estimated from a judge's grades); models newer than 2025, "
    "which start on a guess from these"
)
NOTES = (
    (
        "One scale per type: a fixed mix of tasks (see tasks), the same for all models. Where a model "
        "lacks a task, its score is predicted from task and model effects on the logit scale; a cell "
        "with less than half of its weight measured says source = pooled, n = 0. What a prediction "
        "exceeds the best measured score of any model by counts half."
    ),
    (
        "cot = true: the runs that asked for step-by-step reasoning (zeroeval, mmlu_pro, renze 'cot'). "
        "cot = false in math, knowledge, reasoning and reading: answers to prompts that ask for the "
        "answer alone (renze 'direct'), measured for gpt-3.5-turbo and gpt-4 on the same questions as "
        "their cot runs. For other models and tasks the difference between the two, taken from those "
        "pairs only, is applied to the model's own cot score (pooled). Half an answer in a hundred "
        "is taken to be as long as a reasoned one, though none was seen. Prompts that invite a long "
        "answer by themselves behave like cot = true."
    ),
    (
        "code and chat: the prompts say themselves how to answer, and no source varies it. cot = true "
        "repeats cot = false there with the instruction's input tokens added (pooled, effect 0)."
    ),
    (
        "input_factor: 1 + 14 / the type's mean input tokens where cot = true (the instruction that is "
        "added has 14 tokens), else 1."
    ),
    (
        "Caps: an answer counts if it is complete within max_tokens; the bill is min(length, "
        "max_tokens). A chat answer cut short counts 0, a lower bound, marked pooled where more than "
        "5 % are cut. Claude 3.7 Sonnet reasons first, so only its uncapped runs count."
    ),
    (
        "math, knowledge, reasoning, reading: exact match. code: exact match (crux) and the share of "
        "executed checks passed (can_ai_code). chat: GPT-4o as judge, (grade from 1 to 10 - 1) / 9; "
        "judges favour long answers."
    ),
    (
        "Shares are an assumption, all types alike; general is their mixture. input_tokens are the "
        "bare prompts of the tasks; chat's is the mean of an hour of real conversations (Azure 2023)."
    ),
    (
        "Rewards rank actions within a type on these tasks. Profile your own traffic before trusting "
        "their level."
    ),
)
