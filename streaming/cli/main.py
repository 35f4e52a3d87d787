"""The table of commands, and the one place where expected errors become a line and an exit code."""

from __future__ import annotations

import sys

import typer
from rich.console import Console

from assignor_bridge.errors import AssignorError

app = typer.Typer(
    name="assignor",
    help="Spread Kafka reads of Spark over executor slots: plan, demo, broker and jars.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

# Commands register here, one line each: app.command("plan")(plan.plan)


def main() -> None:
    """Run the command line: results on stdout, progress and errors on stderr, exit 0, 1 or 2."""
    try:
        app()
    except AssignorError as error:
        stderr = Console(stderr=True, soft_wrap=True)
        stderr.print(f"assignor: {error}", markup=False, highlight=False)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
