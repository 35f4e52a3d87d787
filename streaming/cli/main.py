"""List the commands, run one, and turn errors into one line and an exit code."""

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

from assignor_bridge.errors import AssignorError, describe_error, escape_unprintable
from assignor_bridge.version import read_version
from streaming.cli.earlier_names import LAB_COMMANDS, replace_former_names
from streaming.extras import explain_missing_extra
from streaming.redaction import redact
from streaming.validation import describe_expectation

#: Commands by heading in the help. Each is a function in the module of the same name.
PANELS = {
    "Jobs": ("init", "run"),
    "Queries": ("estimate", "report", "lag", "audit"),
    "This machine": ("doctor", "jars", "demo"),
}
_LAB_HELP = "Try assignors and plans without Spark; for developers."
#: Placeholders in the help for the values of options without a metavar.
_VALUE_NAME_BY_TYPE = {int: "NUMBER", float: "NUMBER", str: "TEXT", Path: "PATH"}


class _PlainValueNames:
    """Shows plain names for values in the help, instead of Typer's `<bool>` or `<int range>`."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, including `--help`, with plain names for their values."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if param.param_type_name == "argument":  # its metavar suffices
                param.display_type = lambda _: ""
            elif getattr(param, "is_flag", False):
                param.metavar = ""
            elif param.metavar is None and not param.type_descriptor.is_choice:
                param.metavar = _VALUE_NAME_BY_TYPE.get(param.type_descriptor.annotation, "VALUE")
        return params


class _Command(_PlainValueNames, TyperCommand):
    pass


class _Group(_PlainValueNames, TyperGroup):
    pass


def _print_version(is_set: bool) -> None:
    if is_set:
        typer.echo(f"assignor {read_version()}")
        raise typer.Exit


def build_app(words: Sequence[str] = ()) -> typer.Typer:
    """Build the Typer app with the command that `words` start with; if there is none, with all.

    Only the modules needed are imported, because importing all of them would be slow.
    """
    app = _make_app(name="assignor")
    app.callback()(common_options)
    panel_by_name = {name: panel for panel, names in PANELS.items() for name in names}
    command = words[0] if words else ""
    if command != "lab":
        for name in [command] if command in panel_by_name else panel_by_name:
            _add_command(app, name, rich_help_panel=panel_by_name[name])
    if command not in panel_by_name:
        lab = _make_app(help=_LAB_HELP, short_help=_LAB_HELP)
        for name in [words[1]] if words[1:] and words[1] in LAB_COMMANDS else LAB_COMMANDS:
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
    """Add a command; the list of commands shows the first paragraph of its help in full."""
    function = getattr(import_module(f"streaming.cli.{name}"), name)
    summary = " ".join((function.__doc__ or "").partition("\n\n")[0].split())
    app.command(name, cls=_Command, short_help=summary, **settings)(function)


def common_options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Balance Spark's Kafka reads over executor slots.

    Results go to stdout, progress and errors to stderr. An error is one line. Exit codes: 0 for
    success; 2 for an invalid command line, config or input; 1 for a failed check or any
    other failure, such as a broker that does not answer, a damaged file or an output that cannot be
    written; 130 or 143 after Ctrl-C or SIGTERM (`lab broker`: 0).
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit; `common_options` describes the output and the exit codes."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed (`>&-`): the next open() would get its descriptor
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # escape what the terminal cannot show
            stream.reconfigure(errors="backslashreplace")
    try:
        code = run(arguments)
    finally:
        sys.excepthook = _report_bug  # replaces typer's own hook
    try:
        sys.stdout.flush()
    except OSError as error:  # else Python reports it again when it closes stdout
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if code == 0 and not isinstance(error, BrokenPipeError):
            code = _print_error(_describe_os_error(error), 1)
    sys.exit(code)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; print an expected error as one line."""
    command_line = replace_former_names(sys.argv[1:] if arguments is None else arguments)
    try:
        with explain_missing_extra():
            result = build_app(command_line)(command_line, standalone_mode=False)
    except AssignorError as error:
        return _print_error(str(error), error.exit_code)
    except TyperException as error:
        if not error.format_message():  # no command was given: typer has shown the help
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
    """Describe what is wrong with an argument; replace pydantic's wording, which typer shows."""
    if list_problems := getattr(error.__cause__, "errors", None):
        error.message = describe_expectation(list_problems()[0])
    return error.format_message()


def _describe_os_error(error: OSError) -> str:
    """Describe a failed file or output; return an empty text if the reader exited (`| head`)."""
    if isinstance(error, BrokenPipeError):
        return ""
    target = repr(error.filename) if error.filename is not None else "output"
    return f"{target}: {error.strerror or error}"


def _report_bug(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Print one line about an unexpected error, and try to write its traceback to a file."""
    from streaming.pipeline.spark.stderr_log import create_log

    if not isinstance(error, Exception):
        sys.__excepthook__(kind, error, trace)
        return
    log_hint = ""
    with contextlib.suppress(OSError):
        path = create_log("bug.log")
        text = redact("".join(traceback.format_exception(kind, error, trace)))
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
        log_hint = f"; its traceback is in {path}"
    _print_error(f"a bug in assignor, please report it: {describe_error(error)}{log_hint}", 1)


def _print_error(message: str, code: int) -> int:
    line = " ".join(message.split())
    if not line:
        return code
    with contextlib.suppress(OSError):  # stderr may be on a full disk
        typer.echo(f"assignor: {escape_unprintable(redact(line))}", err=True)
    return code


if __name__ == "__main__":
    main()
