"""The Typer app with all commands, for `typer streaming.cli.all utils docs --name assignor`."""

from streaming.cli.main import build_app

app = build_app()
