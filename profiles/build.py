"""Rebuild every profile that ships from a folder of public outcomes.

    python profiles/build.py --data DIR [--out profiles] [--only broad]
    python profiles/build.py --relink            # after broad-types.npz was retrained

DIR holds outcomes.parquet, prompts.parquet, models.csv, sources.csv, aggregates_aider.csv and
traces/azure2023_conv.parquet. The result depends on these files, on litellm's price map (prices
weigh costs while fitting) and on the classifier beside the output; profiles/README.md explains it.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import build_billed
import build_broad
import build_cot

from budgetroute.profiles import load_profile, save_profile

if TYPE_CHECKING:
    from collections.abc import Callable

    from budgetroute.records import ClassifierRef, Profile

HERE = Path(__file__).resolve().parent
BUILDERS: dict[str, Callable[[Path, ClassifierRef | None], Profile]] = {
    "broad": build_broad.built,
    "billed": build_billed.built,
    "cot": build_cot.built,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--data", type=Path, help="folder of public outcomes")
    what.add_argument("--relink", action="store_true", help="only refer to a retrained classifier")
    parser.add_argument("--out", type=Path, default=HERE, help="folder of the profiles")
    parser.add_argument("--only", choices=BUILDERS, help="one of them")
    args = parser.parse_args()
    classifier = build_broad.classifier_beside(args.out)
    for name in [args.only] if args.only else BUILDERS:
        path = args.out / f"{name}.json"
        if args.relink:
            profile = replace(load_profile(path), classifier=classifier)
        else:
            profile = BUILDERS[name](args.data, classifier)
        save_profile(profile, path)
        print(f"{path}: {len(profile.actions)} actions, {len(profile.types)} types")


if __name__ == "__main__":
    main()
