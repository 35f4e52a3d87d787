"""`assignor lag --plan`: a group's assignment today, and the one that each assignor would give."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import typer

from assignor_bridge.errors import pluralize
from streaming.cli.output import note, print_lines, print_table
from streaming.kafka.classic_groups import read_classic_group

if TYPE_CHECKING:
    from streaming.kafka.brokers import Brokers
    from streaming.kafka.classic_groups import ClassicGroup
    from streaming.lag.group_plan import GroupPlan


def print_plans(group_name: str, names: str, brokers: Brokers, *, as_json: bool) -> None:
    """Print the plans of the named assignors, and whether the group can move to KIP-848 online."""
    # Imported late: they load numpy, which the other forms of the command do not need for a group.
    from streaming.cli.assignors import make_finder, parse_names
    from streaming.lag import group_plan

    listed = parse_names(names, "--plan")
    assignors = group_plan.find_assignors(listed, make_finder(listed, "--plan"))
    group = read_classic_group(brokers, group_name)
    lags = group_plan.read_lags(brokers, group)
    today = group_plan.describe_today(group, lags)
    plans: list[GroupPlan] = []
    for assignor in assignors:
        plan = group_plan.plan(group, lags, assignor)
        if isinstance(plan, str):
            note(f"assignor {assignor.name!r} refuses the group: {plan}")
        else:
            plans.append(plan)
    refusal = group_plan.check_online_upgrade(group)
    if as_json:
        result = {
            "group": group.name,
            "clients": {member.member_id: member.client_id for member in group.members},
            "today": today.to_json(),
            "plans": [plan.to_json() for plan in plans],
            "online_upgrade": {"possible": refusal is None, "refusal": refusal},
        }
        typer.echo(json.dumps(result))
    else:
        _print_table(group, today, plans)
        print_lines([_describe_upgrade(group, refusal)])
    for line in brokers.notes:
        note(line)
    if lags.uncommitted:
        partitions = pluralize(lags.uncommitted, "partition")
        note(f"{partitions} have no committed offset: lag 0, as with auto.offset.reset=latest")


def _print_table(group: ClassicGroup, today: GroupPlan, plans: list[GroupPlan]) -> None:
    """Print partitions and lag of each member."""
    clients = Counter(member.client_id for member in group.members)
    columns = [today, *plans]
    heads = [f"{today.assignor}, today", *(plan.assignor for plan in plans)]
    rows = []
    for member in sorted(group.members, key=lambda m: (m.client_id, m.member_id)):
        name = member.client_id if clients[member.client_id] == 1 else member.member_id
        cells = []
        for plan in columns:
            count = sum(map(len, plan.partitions[member.member_id].values()))
            cells += [f"{count:,}", f"{plan.lag[member.member_id]:,}"]
        rows.append([name, *cells])
    moved = [cell for plan in plans for cell in (f"{plan.moved:,}", "")]
    rows.append(["partitions moved", "", "", *moved])
    print_table(["member", *(cell for head in heads for cell in (head, "lag"))], rows)


def _describe_upgrade(group: ClassicGroup, refusal: str | None) -> str:
    if refusal:
        return (
            f"group.protocol=consumer (KIP-848): the group cannot move online: {refusal}. Stop all "
            "members, then start them with the new protocol"
        )
    return (
        "group.protocol=consumer (KIP-848): the group can move online, member by member, unless "
        f"group.consumer.migration.policy forbids it; a broker's assignor replaces "
        f"{group.assignor!r}"
    )
