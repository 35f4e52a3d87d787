"""The errors that this package raises on purpose.

Each message says who, what exactly and what to do; the CLI prints it as its one line and exits
with the class's `exit_code` (2 for misuse, 1 for a failure).
"""


class AssignorError(Exception):
    """Base of every error that assignor_bridge and streaming raise on purpose."""

    #: Exit code of the command line when this error ends it.
    exit_code = 1


class OptionError(AssignorError, ValueError):
    """An option, a name or an input that the user must change."""

    exit_code = 2


class PlanError(AssignorError, ValueError):
    """A plan or an assignment that breaks the rules (an offset lost, repeated or invented)."""
