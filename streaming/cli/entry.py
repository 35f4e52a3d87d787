"""Entry point of the `assignor` command: run `main`, or name the missing extra."""

import sys
from collections.abc import Sequence
from typing import NoReturn

from streaming.extras import MissingExtraError, explain_missing_extra


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line; if a package of an extra is missing, name the extra and exit with 1."""
    try:
        with explain_missing_extra():
            from streaming.cli.main import main as run
    except MissingExtraError as error:
        sys.exit(f"assignor: {error}")
    run(arguments)


if __name__ == "__main__":
    main()
