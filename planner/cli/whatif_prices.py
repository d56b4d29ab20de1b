"""``planner whatif break-even`` and ``planner whatif offer``: prices that change a choice."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.cache import CacheDir, NoCache, remembered_simulations
from planner.cli.options import Json, Settings
from planner.cli.output import emit_json, emit_tables, progress

if TYPE_CHECKING:
    from collections.abc import Callable

Scenario = Annotated[Path, typer.Argument(metavar="FILE", help="The scenario.")]


def break_even(
    file: Scenario,
    accelerator: Annotated[
        str, typer.Option("--accelerator", metavar="ID", help="Whose price is moved.")
    ],
    settings: Settings = None,
    as_json: Json = False,
    cache_dir: CacheDir = None,
    no_cache: NoCache = False,
) -> int:
    """Find the price at which an accelerator enters or leaves the best fleet.

    By planning anew at each price, to one per cent.
    """
    from planner.reporting.offers import break_even_tables
    from planner.scenario.load import load_question
    from planner.studies.asking import Asking
    from planner.studies.break_even import break_even as found_by

    loaded = load_question(file, settings or [])
    with remembered_simulations(cache_dir, no_cache), progress() as report:
        found = found_by(Asking(loaded, accelerator, _tell(report)))
    if as_json:
        emit_json({"format_version": "1.0", **found.model_dump(mode="json")})
    else:
        emit_tables(*break_even_tables(found))
    return 0


def offer(
    file: Scenario,
    words: Annotated[
        str,
        typer.Argument(metavar="OFFER", help="'64 h200-sxm at 2.10 USD/h for 24 months'."),
    ],
    settings: Settings = None,
    as_json: Json = False,
    cache_dir: CacheDir = None,
    no_cache: NoCache = False,
) -> int:
    """Accept or refuse a supplier's offer, and say at which price that would flip.

    What is offered is paid used or not; the scenario has the accelerator at the market's price.
    """
    from planner.reporting.offers import offer_tables
    from planner.scenario.load import load_question
    from planner.studies.asking import Asking
    from planner.studies.offer import answer_offer, read_offer

    asked = read_offer(words)
    loaded = load_question(file, settings or [])
    with remembered_simulations(cache_dir, no_cache), progress() as report:
        found = answer_offer(Asking(loaded, asked.accelerator, _tell(report)), asked)
    if as_json:
        emit_json({"format_version": "1.0", **found.model_dump(mode="json")})
    else:
        emit_tables(*offer_tables(found))
    return 0


def _tell(report: Callable[[str, float], None] | None) -> Callable[[str, int], None]:
    def tell(what: str, plans: int) -> None:
        if report is not None:
            report(f"plan {plans + 1}, {what}", min(0.95, plans / 12))

    return tell
