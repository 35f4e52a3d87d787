"""The table of commands, and the one place where expected errors become a line and an exit code."""

import contextlib
import io
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException

from assignor_bridge.errors import AssignorError, visible, words
from assignor_bridge.version import read_version
from streaming.cli.earlier_names import LAB, translate
from streaming.extras import name_extra
from streaming.redaction import redacted
from streaming.validation import expectation

#: Commands under the headings of the help, each a function of its name in its module of
#: `streaming.cli`.
PANELS = {
    "Jobs": ("init", "run"),
    "Queries": ("estimate", "report", "lag", "audit"),
    "This machine": ("doctor", "jars", "demo"),
}


_LAB = "Try assignors and plans without Spark; for developers."
#: What the help shows for the value of an option that has no name for it.
_VALUE_NAMES = {int: "NUMBER", float: "NUMBER", str: "TEXT", Path: "PATH"}


class _PlainValueNames:
    """Shows words for values in the help, instead of Typer's `<bool>` or `<int range>`."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, `--help` too."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if param.param_type_name == "argument":  # its own name says what it is
                param.display_type = lambda _: ""
            elif getattr(param, "is_flag", False):
                param.metavar = ""
            elif param.metavar is None and not param.type_descriptor.is_choice:
                param.metavar = _VALUE_NAMES.get(param.type_descriptor.annotation, "VALUE")
        return params


class _Command(_PlainValueNames, TyperCommand):
    pass


class _Group(_PlainValueNames, TyperGroup):
    pass


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"assignor {read_version()}")
        raise typer.Exit


def build_app(words: Sequence[str] = ()) -> typer.Typer:
    """Make the command line of the one command that words begin with, or of all.

    Only what is needed is imported: all commands together take as long as one's own work.
    """
    app = _make_app(name="assignor")
    app.callback()(common_options)
    panels = {name: panel for panel, names in PANELS.items() for name in names}
    first = words[0] if words else ""
    if first != "lab":
        for name in [first] if first in panels else panels:
            _add_command(app, name, rich_help_panel=panels[name])
    if first not in panels:
        lab = _make_app(help=_LAB, short_help=_LAB)
        for name in [words[1]] if words[1:] and words[1] in LAB else LAB:
            _add_command(lab, name)
        app.add_typer(lab, name="lab", cls=_Group, hidden=True)
    return app


def _make_app(**settings: Any) -> typer.Typer:
    return typer.Typer(
        cls=_Group,
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
        **settings,
    )


def _add_command(app: typer.Typer, name: str, **settings: Any) -> None:
    """Add a command; the list of commands has the whole first sentence of its help."""
    function = getattr(import_module(f"streaming.cli.{name}"), name)
    first = " ".join((function.__doc__ or "").partition("\n\n")[0].split())
    app.command(name, cls=_Command, short_help=first, **settings)(function)


def common_options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Share Spark's Kafka reading evenly over executor slots.

    Results go to stdout, progress and errors to stderr. An error is one line. Exit codes: 0 for
    success; 2 for misuse, which is a mistake in the command, in a config, or in an input's form;
    1 for a failed check and any other failure, such as a broker that does not answer, a damaged
    file, or an output that cannot be written; 130 or 143 after Ctrl-C or SIGTERM (`lab broker`: 0).
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line: results on stdout, progress and errors on stderr, exit 0, 1 or 2."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed (`>&-`): a file of ours would get its number
            setattr(sys, name, Path(os.devnull).open("r" if name == "stdin" else "w"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal without Unicode gets escapes
            stream.reconfigure(errors="backslashreplace")
    try:
        code = run(arguments)
    finally:
        sys.excepthook = _report_bug  # typer has set its own
    try:
        sys.stdout.flush()
    except OSError as error:  # else Python complains about it when it closes stdout
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if code == 0 and not isinstance(error, BrokenPipeError):
            code = _print_error(_describe_os_error(error), 1)
    sys.exit(code)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; an expected error is one line on stderr."""
    given = translate(sys.argv[1:] if arguments is None else arguments)
    try:
        with name_extra():
            result = build_app(given)(given, standalone_mode=False)
    except AssignorError as error:
        return _print_error(str(error), error.exit_code)
    except TyperException as error:
        if not error.format_message():  # the help was shown, for want of a command
            return 2
        context = getattr(error, "ctx", None)
        hint = f" (see {context.command_path} --help)" if context else ""
        return _print_error(f"{_describe_misuse(error)}{hint}", 2)
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except OSError as error:
        return _print_error(_describe_os_error(error), 1)
    return result if isinstance(result, int) else 0


def _describe_misuse(error: TyperException) -> str:
    """Say what is wrong with an argument, in our words where typer has those of pydantic."""
    if problems := getattr(error.__cause__, "errors", None):
        error.message = expectation(problems()[0])
    return error.format_message()


def _describe_os_error(error: OSError) -> str:
    """Say what a file or the output failed with; nothing of a reader that has gone (`| head`)."""
    if isinstance(error, BrokenPipeError):
        return ""
    where = repr(error.filename) if error.filename is not None else "output"
    return f"{where}: {error.strerror or error}"


def _report_bug(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Print one line about an error that no code expected; its traceback goes into a file."""
    from streaming.pipeline.spark.log import new_log

    if not isinstance(error, Exception):
        sys.__excepthook__(kind, error, trace)
        return
    where = ""
    with contextlib.suppress(OSError):
        path = new_log("bug.log")
        text = redacted("".join(traceback.format_exception(kind, error, trace)))
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
        where = f"; its traceback is in {path}"
    _print_error(f"a bug in assignor, please report it: {words(error)}{where}", 1)


def _print_error(message: str, code: int) -> int:
    line = " ".join(message.split())
    if not line:
        return code
    with contextlib.suppress(OSError):  # stderr on a full disk: the exit code remains
        typer.echo(f"assignor: {visible(redacted(line))}", err=True)
    return code


if __name__ == "__main__":
    main()
