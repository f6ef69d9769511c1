"""`python -m dse`."""

from __future__ import annotations

from dse.cli.app import main

if __name__ == "__main__":
    main()
