"""`assignor audit`: prove from Delta's log that a table holds each offset exactly once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assignor_bridge.errors import OptionError, pluralize
from streaming.cli import kafka_options
from streaming.cli.arguments import check_not_empty
from streaming.cli.output import note, print_lines, print_table
from streaming.pipeline.spark.stderr_log import SparkLog
from streaming.redaction import redact

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streaming.audit.all_checks import Audit, AuditedQuery
    from streaming.kafka.brokers import Brokers


def audit(
    checkpoint: Annotated[
        str | None,
        typer.Argument(metavar="CHECKPOINT", help="Checkpoint of the query that writes the table."),
    ] = None,
    *,
    table: Annotated[str, typer.Option(metavar="PATH", help="Folder of the Delta table.")],
    since: Annotated[
        int | None,
        typer.Option(metavar="VERSION", min=0, help="First table version to audit."),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC,PARTITION,OFFSET",
            help="Also check the rows; these columns hold each row's topic, partition and offset. "
            "Starts Spark. Works with any Delta table without upserts.",
        ),
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="With --columns: check only about N offsets."),
    ] = None,
    bootstrap_servers: kafka_options.BootstrapServers = None,
    command_config: kafka_options.CommandConfig = None,
    timeout: kafka_options.Timeout = 10.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON.")] = False,
) -> None:
    """Prove that each offset of the topics is in exactly one commit of a Delta table.

    Reads the table's log, where each batch of `assignor run` records its offsets, and the query's
    checkpoint. It changes nothing. The proof covers the offsets read and the number of rows
    committed. With --columns, it also covers the rows; if you give the brokers too, the rows are
    compared with the topic's records. The exit code is 0 if everything is proved. It is 1 if
    something is wrong or cannot be proved; each finding states what to do.

    Example: `assignor audit data/checkpoints/orders --table data/tables/orders`
    """
    check_not_empty("--table", table)
    check_not_empty("CHECKPOINT", checkpoint)
    column_names = _parse_columns(columns)
    row_options = (bootstrap_servers, command_config, sample)
    if column_names is None and any(option is not None for option in row_options):
        raise OptionError(
            "--bootstrap-server, --command-config and --sample need --columns: name the columns "
            "that hold each row's topic, partition and offset"
        )
    # Imported late: they load numpy, which the checks above do not need.
    from streaming.audit.all_checks import audit as audit_evidence
    from streaming.audit.audited_files import read_evidence

    result = audit_evidence(read_evidence(table, checkpoint), since)
    if column_names is not None and result.is_upsert:
        raise OptionError(
            "--columns cannot be used with this table, which keeps only each key's newest row: "
            "omit --columns"
        )
    if column_names is not None:
        brokers = kafka_options.connect_to_brokers(bootstrap_servers, command_config, timeout)
        _check_rows(table, column_names, result, brokers, sample)
        for text in brokers.notes if brokers else []:
            note(text)
    if as_json:
        typer.echo(json.dumps(_to_json(table, result)))
    else:
        _print_audit(table, result)
    if checkpoint is None:
        note("without a checkpoint, the table is not compared with the query's progress")
    if not result.holds:
        raise typer.Exit(1)


def _check_rows(
    table: str, column_names: list[str], result: Audit, brokers: Brokers | None, sample: int | None
) -> None:
    """Check the rows with Spark and add the findings to `result`; raise JobError if Spark fails."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from streaming.audit.row_sources import Columns, audit_rows
    from streaming.delta.spark_settings import start_local_session
    from streaming.pipeline.job_errors import JobError, summarize

    log = SparkLog(None, "audit", redact)
    note("starting Spark to read the rows")
    try:
        with log.redirect_stderr():
            spark = start_local_session("assignor audit")
        try:
            args = (spark, table, Columns(*column_names), result.spans, brokers)
            row_audit, findings = audit_rows(*args, sample=sample, version=result.last_version)
        finally:
            spark.stop()
    except (PySparkException, Py4JError) as error:
        reason = f"the rows of {table!r} cannot be checked: {summarize(error)}"
        raise JobError(f"{reason} (Spark's log: {log.path})") from error
    result.add_rows(row_audit, findings, are_sampled=sample is not None)


def _parse_columns(text: str | None) -> list[str] | None:
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if len(names) != 3 or not all(names):
        raise OptionError(
            f"--columns is {text!r}: three names are expected, such as topic,partition,offset"
        )
    return names


def _to_json(table: str, result: Audit) -> dict[str, Any]:
    return {
        "table": table,
        "proved": result.holds,
        "scope": result.scope,
        "versions": [result.first_version, result.last_version],
        "files": result.files,
        "rows": result.rows,
        "queries": [
            {
                "query": query.id,
                "batches": len(query.batches),
                "offsets": query.offsets,
                "partitions": query.partitions,
                "batches_counted": query.batches_counted,
                "offsets_without_record": query.offsets_without_record,
                "batches_recounted": query.batches_recounted,
            }
            for query in result.queries
        ],
        "rows_read": result.rows_read,
        "records_compared": result.records_compared,
        "findings": [
            {"kind": f.kind, "verdict": f.verdict, "details": f.details, "cure": f.cure}
            for f in result.findings
        ],
    }


def _print_audit(table: str, result: Audit) -> None:
    if result.queries:
        head = ("QUERY", "BATCHES", "VERSIONS", "PARTITIONS", "OFFSETS", "RECORDS")
        print_table(head, map(_format_row, result.queries), text_columns={"RECORDS"})
    for finding in result.findings:
        problem = f"{finding.verdict.upper()} {finding.kind}: {finding.details}"
        print_lines([problem, f"  {finding.cure}"])
    offsets = pluralize(sum(query.offsets for query in result.queries), "offset")
    files = pluralize(result.files, "file")
    summary = f"{table}: versions {result.first_version} to {result.last_version}, {files}"
    if result.rows_read is not None:
        summary += f", {pluralize(result.rows_read, 'row')} read"
    if result.records_compared is not None:
        summary += f", {pluralize(result.records_compared, 'record')} compared"
    if result.holds:
        proof = f"{offsets}, each committed exactly once"
        if not result.queries:  # written by other software, and proved by its rows
            proof = "each offset is in exactly one row"
        print_lines([f"PROVED {summary}: {proof}", *_describe_limits(result)])
    else:
        wrong_count = sum(finding.verdict == "wrong" for finding in result.findings)
        counts = f"{wrong_count} wrong, {len(result.findings) - wrong_count} unproved"
        print_lines([f"NOT PROVED {summary}: {counts}"])


def _describe_limits(result: Audit) -> Iterator[str]:
    """Describe what the proof does not cover; yield nothing if all rows were read."""
    if result.scope == "rows":
        return
    if result.scope == "sampled rows":
        yield "  limit: of the rows, only the sampled ones are proved"
        return
    rerun_count = sum(query.batches_recounted for query in result.queries)
    batches = pluralize(rerun_count, "batch", "batches")
    rerun_note = f" (Spark ran tasks of {batches} again)" if rerun_count else ""
    columns_hint = "" if result.is_upsert else "; --columns compares rows"
    yield (
        "  limit: only the offsets read and the number of rows committed are proved, not which "
        f"rows arrived after a shuffle{rerun_note}{columns_hint}"
    )


def _format_row(query: AuditedQuery) -> tuple[str, ...]:
    numbers = [batch.number for batch in query.batches]
    versions = [batch.version for batch in query.batches]
    return (
        query.id,
        f"{min(numbers)} to {max(numbers)}",
        f"{min(versions)} to {max(versions)}",
        f"{query.partitions:,}",
        f"{query.offsets:,}",
        _describe_records(query),
    )


def _describe_records(query: AuditedQuery) -> str:
    if query.batches_counted == len(query.batches):
        return "each read once"
    if not (query.batches_counted or query.offsets_without_record or query.batches_recounted):
        return "not counted"
    parts = []
    if query.batches_counted:
        parts.append(f"{query.batches_counted} of {len(query.batches)} batches: each read once")
    if query.offsets_without_record:
        offsets = pluralize(query.offsets_without_record, "offset")
        parts.append(f"at least {offsets} without a counted record")
    if query.batches_recounted:
        batches = pluralize(query.batches_recounted, "batch", "batches")
        parts.append(f"{batches} with records that Spark counted more than once")
    return "; ".join(parts)
