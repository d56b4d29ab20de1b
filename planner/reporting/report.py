"""What a report of a plan or of a study holds: the answer first, then what it rests on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from planner.reporting.blocks import Rows, Section, sections
from planner.reporting.placement_html import placement_figures
from planner.reporting.report_charts import bill_chart, demand_charts, misses_chart, study_chart
from planner.reporting.report_html import page
from planner.reporting.report_markdown import markdown
from planner.reporting.study import study_tables
from planner.reporting.tables import plan_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planner.fleet import FleetPlan
    from planner.studies.runner import StudyResult

ORDER: Final = (
    "What stands in the way",
    "What would mend it",
    "Bill",
    "Limits",
    "Pools",
    "Fleet",
    "Request sizes",
    "Where they stand",
    "Placement",
    "What changes against",
    "",
    "Missed deadlines",
    "With one unit less",
    "After a failure",
    "Decisions",
    "Prefill and decode together or apart",
    "Why not another",
    "Prices between",
    "Other settings",
    "Accelerators kept busy",
    "Attainment if",
    "Attainment, and",
    "Where the step times come from",
    "Notes",
)
"""How headings begin, in the order of a report; those not named stand where "" does."""
PLACES: Final = "Where every replica stands"


def report_of_plan(plan: FleetPlan, form: str) -> str:
    """Write the report of a plan.

    Args:
        plan: Any plan, also one without a fleet.
        form: ``html``, one page with pictures, or ``md``.
    """
    answer, *rest = sections(plan_table(plan))
    prices = _prices(plan)
    told = sorted([*rest, prices] if prices is not None else rest, key=_place)
    rejected = Section(
        "All templates that were not chosen",
        (
            Rows(
                ("template", "reason"),
                (False, False),
                tuple((x.template, x.reason) for x in plan.rejected),
            ),
        ),
    )
    asked = Section(
        "Every value of the question, and where it comes from",
        (Rows(("path", "value", "origin"), (False, False, False), tuple(_asked(plan))),),
    )
    foot = f"planner {plan.planner_version}, seed {plan.seed}" + (
        f", {plan.created}" if plan.created else ""
    )
    if form == "md":
        return markdown([answer, *told, asked], foot)
    pictures: dict[str, str] = {}
    for one in told:
        if one.heading.startswith("Bill"):
            pictures[one.heading] = bill_chart(plan)
        elif one.heading.startswith("Missed deadlines"):
            pictures[one.heading] = misses_chart(plan)
        elif one.heading.startswith("Attainment of this fleet if demand"):
            pictures[one.heading] = "".join(demand_charts(plan))
    if plan.placement and plan.topology is not None:
        after = next((i for i, one in enumerate(told) if one.heading.startswith("Pools")), -1)
        told.insert(after + 1, Section(PLACES, ()))
        pictures[PLACES] = f'<div class="place">{placement_figures(plan)}</div>'
    folded = [rejected, asked] if plan.rejected else [asked]
    return page([answer, *told], pictures, folded, foot)


def report_of_study(found: StudyResult, form: str) -> str:
    """Write the report of a study, ``html`` or ``md``."""
    answer, *rest = sections(study_tables(found, longest=None))
    ranked: list[Section] = [one for one in rest if one.heading == "In short"]
    rows = Section("Every run", answer.blocks)
    told: list[Section] = [Section(answer.heading, ()), *ranked, rows]
    if form == "md":
        return markdown(told)
    return page(told, {rows.heading: study_chart(found)})


def _place(section: Section) -> int:
    """Return where a section stands in a report."""
    named = (i for i, name in enumerate(ORDER) if name and section.heading.startswith(name))
    return next(named, ORDER.index(""))


def _prices(plan: FleetPlan) -> Section | None:
    """Tell between which prices the plan stays the best."""
    ranges = plan.alternatives.price_ranges if plan.alternatives else ()
    if not ranges:
        return None
    rows = tuple(
        (
            r.accelerator,
            f"{r.usd_per_hour:.4g}",
            "any" if r.low is None else f"{r.low:.4g}",
            "any" if r.high is None else f"{r.high:.4g}",
            " + ".join(r.below) or "–",
            " + ".join(r.above) or "–",
        )
        for r in ranges
    )
    headers = ("accelerator", "USD/h", "best from", "to", "below, instead", "above, instead")
    return Section(
        "Prices between which this fleet stays the best, by the points that were measured",
        (Rows(headers, (False, True, True, True, False, False), rows),),
    )


def _asked(plan: FleetPlan) -> Iterator[tuple[str, str, str]]:
    origins = plan.scenario.origins
    for path, value in _leaves(plan.scenario.document, ()):
        name = ".".join(path)
        yield name, value, origins.get(name, "default")


def _leaves(value: Any, path: Sequence[str]) -> Iterator[tuple[Sequence[str], str]]:
    if isinstance(value, dict) and value:
        for key, part in value.items():
            yield from _leaves(part, (*path, str(key)))
    elif isinstance(value, list | tuple) and value:
        for i, part in enumerate(value):
            yield from _leaves(part, (*path, str(i)))
    elif value is not None:
        yield path, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
