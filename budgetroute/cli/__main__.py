"""`python -m budgetroute.cli`."""

from __future__ import annotations

from budgetroute.cli import main

if __name__ == "__main__":
    main()
