"""`assignor lag --plan`: compare today's assignment of a group with that of each assignor."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import typer

from assignor_bridge.errors import pluralize
from streaming.cli.output import note, print_lines, print_table
from streaming.kafka.classic_groups import fetch_classic_group

if TYPE_CHECKING:
    from streaming.kafka.brokers import Brokers
    from streaming.kafka.classic_groups import ClassicGroup
    from streaming.lag.group_plan import GroupPlan


def print_plans(group_name: str, names_text: str, brokers: Brokers, *, as_json: bool) -> None:
    """Print the assignment today and by each assignor, and whether KIP-848 needs a restart."""
    # These import numpy, which `assignor lag` without `--plan` does not need.
    from streaming.cli.assignors import make_finder, parse_names
    from streaming.lag import group_plan

    assignor_names = parse_names(names_text, "--plan")
    assignors = group_plan.find_assignors(assignor_names, make_finder(assignor_names, "--plan"))
    group = fetch_classic_group(brokers, group_name)
    group_lags = group_plan.fetch_lags(brokers, group)
    current_plan = group_plan.make_current_plan(group, group_lags)
    plans: list[GroupPlan] = []
    for assignor in assignors:
        plan_or_refusal = group_plan.plan(group, group_lags, assignor)
        if isinstance(plan_or_refusal, str):
            note(f"assignor {assignor.name!r} refuses the group: {plan_or_refusal}")
        else:
            plans.append(plan_or_refusal)
    refusal = group_plan.check_online_upgrade(group)
    if as_json:
        result = {
            "group": group.name,
            "clients": {member.member_id: member.client_id for member in group.members},
            "today": current_plan.to_json(),
            "plans": [plan.to_json() for plan in plans],
            "online_upgrade": {"possible": refusal is None, "refusal": refusal},
        }
        typer.echo(json.dumps(result))
    else:
        _print_table(group, current_plan, plans)
        print_lines([_describe_upgrade(group, refusal)])
    for line in brokers.notes:
        note(line)
    if group_lags.partitions_without_commit:
        partitions = pluralize(group_lags.partitions_without_commit, "partition")
        note(f"{partitions} without a committed offset: lag 0, as for auto.offset.reset=latest")


def _print_table(group: ClassicGroup, current_plan: GroupPlan, plans: list[GroupPlan]) -> None:
    """Print each member's partitions and lag in each plan, and how many partitions would move."""
    member_count_by_client = Counter(member.client_id for member in group.members)
    plan_names = [f"{current_plan.assignor}, today", *(plan.assignor for plan in plans)]
    rows = []
    for member in sorted(group.members, key=lambda m: (m.client_id, m.member_id)):
        is_unique = member_count_by_client[member.client_id] == 1
        cells = []
        for plan in (current_plan, *plans):
            count = sum(map(len, plan.partitions[member.member_id].values()))
            cells += [f"{count:,}", f"{plan.lag_by_member[member.member_id]:,}"]
        rows.append([member.client_id if is_unique else member.member_id, *cells])
    moved_cells = [cell for plan in plans for cell in (f"{plan.moved_partitions:,}", "")]
    rows.append(["partitions moved", "", "", *moved_cells])
    print_table(["member", *(cell for name in plan_names for cell in (name, "lag"))], rows)


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
