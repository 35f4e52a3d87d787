"""The table of commands, and the one place where expected errors become a line and an exit code."""

import os
import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from assignor_bridge import __version__
from assignor_bridge.errors import AssignorError
from streaming.cli import (
    assign,
    broker,
    demo,
    doctor,
    init,
    jars,
    lag,
    offsets,
    plan,
    replay,
    report,
    run_command,
    schema,
    simulate,
    top,
)

#: Base of all complaints about the command line (typer carries its own copy of click).
_UsageError: type[typer.BadParameter] = typer.BadParameter.__mro__[2]


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"assignor {__version__}")
        raise typer.Exit


app = typer.Typer(
    name="assignor",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Spread Kafka reads of Spark over executor slots: jobs, plans, demo, broker and jars."""


# Commands register here, one line each: app.command("plan")(plan.plan)
app.command("assign")(assign.assign)
app.command("broker")(broker.broker)
app.command("demo")(demo.demo)
app.command("doctor")(doctor.doctor)
app.command("init")(init.init)
app.command("jars")(jars.jars)
app.command("lag")(lag.lag)
app.command("offsets")(offsets.offsets)
app.command("plan")(plan.plan)
app.command("replay")(replay.replay_command)
app.command("report")(report.report)
app.command("run")(run_command.run)
app.command("schema")(schema.schema)
app.command("simulate")(simulate.simulate)
app.command("top")(top.top)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line: results on stdout, progress and errors on stderr, exit 0, 1 or 2."""
    code = run(arguments)
    try:
        sys.stdout.flush()
    except BrokenPipeError:  # else Python complains about it when it closes stdout
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and give its exit code; an expected error is one line on stderr."""
    try:
        result = app(arguments, standalone_mode=False)
    except AssignorError as error:
        return _fail(str(error), error.exit_code)
    except _UsageError as error:
        if not error.format_message():  # the help was shown, for want of a command
            return 2
        context = getattr(error, "ctx", None)
        hint = f" (see {context.command_path} --help)" if context else ""
        return _fail(f"{error.format_message()}{hint}", 2)
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except BrokenPipeError:  # the reader of our output has gone, as in `assignor ... | head`
        return 1
    return result if isinstance(result, int) else 0


def _fail(message: str, code: int) -> int:
    line = " ".join(message.split())
    typer.echo(f"assignor: {line}", err=True)
    return code


if __name__ == "__main__":
    main()
