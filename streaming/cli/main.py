"""The table of commands, and the one place where expected errors become a line and an exit code."""

import contextlib
import io
import os
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Annotated, NoReturn

import typer

from assignor_bridge import __version__
from assignor_bridge.errors import AssignorError

#: Commands, each with its module of `streaming.cli` and its function there. Only the one that is
#: asked for is imported: together they take as long as a command's own work.
COMMANDS = {
    "assign": ("assign", "assign"),
    "broker": ("broker", "broker"),
    "demo": ("demo", "demo"),
    "doctor": ("doctor", "doctor"),
    "init": ("init", "init"),
    "jars": ("jars", "jars"),
    "lag": ("lag", "lag"),
    "offsets": ("offsets", "offsets"),
    "plan": ("plan", "plan"),
    "replay": ("replay", "replay_command"),
    "report": ("report", "report"),
    "run": ("run_command", "run"),
    "schema": ("schema", "schema"),
    "simulate": ("simulate", "simulate"),
    "top": ("top", "top"),
}

#: Base of all complaints about the command line (typer carries its own copy of click).
_UsageError: type[typer.BadParameter] = typer.BadParameter.__mro__[2]


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"assignor {__version__}")
        raise typer.Exit


def app_of(names: Iterable[str]) -> typer.Typer:
    """Make the command line of some of the commands."""
    app = typer.Typer(
        name="assignor",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(options)
    for name in names:
        module, function = COMMANDS[name]
        app.command(name)(getattr(import_module(f"streaming.cli.{module}"), function))
    return app


def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Spread Kafka reads of Spark over executor slots: jobs, plans, demo, broker and jars."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line: results on stdout, progress and errors on stderr, exit 0, 1 or 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal without Unicode gets escapes
            stream.reconfigure(errors="backslashreplace")
    code = run(arguments)
    try:
        sys.stdout.flush()
    except OSError as error:  # else Python complains about it when it closes stdout
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if code == 0 and not isinstance(error, BrokenPipeError):
            code = _fail(_of_system(error), 1)
    sys.exit(code)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and give its exit code; an expected error is one line on stderr."""
    first = (sys.argv[1:] if arguments is None else arguments)[:1]
    names = first if first and first[0] in COMMANDS else COMMANDS
    try:
        result = app_of(names)(arguments, standalone_mode=False)
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
    except OSError as error:
        return _fail(_of_system(error), 1)
    return result if isinstance(result, int) else 0


def _of_system(error: OSError) -> str:
    """Say what a file or the output failed with; nothing of a reader that has gone (`| head`)."""
    if isinstance(error, BrokenPipeError):
        return ""
    where = repr(error.filename) if error.filename is not None else "output"
    return f"{where}: {error.strerror or error}"


def _fail(message: str, code: int) -> int:
    line = " ".join(message.split())
    if not line:
        return code
    with contextlib.suppress(OSError):  # stderr on a full disk: the exit code remains
        typer.echo(f"assignor: {line}", err=True)
    return code


if __name__ == "__main__":
    main()
