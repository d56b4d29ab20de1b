"""What scheduler settings are worth, as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from planner.reporting.format import NONE, change, rate, share, significant, usd
from planner.reporting.layout import grid, heading, lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from planner.fleet import BusyPoint, PoolSettings, SettingEffect, Settings

TELLS: Final = 0.001
"""Change of attainment below which a setting is not shown beside the plan."""
MANY: Final = 5.0
"""Times dearer from which a factor reads better than per cent."""


def settings_tables(settings: Settings | None, *, every: bool) -> Iterator[RenderableType]:
    """Lay out what settings are worth, then what keeping the accelerators busy costs.

    Args:
        settings: The plan's section; nothing is shown of none.
        every: Show settings that change nothing, too.
    """
    if settings is None:
        return
    knobs = [x for x in settings.knobs if every or _tells(x)]
    shown = [settings.plan, *knobs]
    if settings.engine_defaults is not None:
        shown.append(settings.engine_defaults)
    yield heading("Other settings, the same accelerators and requests (cost per 1,000 compliant)")
    yield grid(
        ("settings", ">attainment", ">against the plan", ">per 1,000", ">accelerators needed"),
        [_effect(x, settings.plan) for x in shown],
    )
    said = []
    if hidden := len(settings.knobs) - len(knobs):
        said.append(f"{hidden} other changes move no attainment by {TELLS:.1%}: planner explain")
    if settings.engine_defaults is not None:
        said.append(f"the engine's defaults: {_named(settings.engine_defaults)}")
    if every and settings.engine_defaults_source:
        said.append(f"defaults as in {settings.engine_defaults_source}")
    yield lines([*said, *settings.notes])
    if len(settings.busy) > 1:
        yield heading("Accelerators kept busy, or promises kept (the same fleet)")
        yield grid(
            ("", ">offered", ">raw", ">compliant", ">attainment", ">MFU", ">per 1,000 compliant"),
            [_busy(x, settings.busy[0]) for x in settings.busy],
        )


def _tells(effect: SettingEffect) -> bool:
    return bool(effect.impossible) or any(abs(x.value) >= TELLS for x in effect.difference.values())


def _named(effect: SettingEffect) -> str:
    """Name the settings of every pool, once where they are alike."""
    each = dict.fromkeys(map(_settings, effect.pools))
    return "; ".join(each)


def _settings(pool: PoolSettings) -> str:
    return f"max_num_batched_tokens {pool.max_num_batched_tokens}, max_num_seqs {pool.max_num_seqs}"


def _effect(effect: SettingEffect, plan: SettingEffect) -> tuple[str, ...]:
    if effect.impossible:
        return effect.change, effect.impossible, NONE, NONE, NONE
    several = len(effect.attainment) > 1

    def of(name: str, words: str) -> str:
        return f"{name} {words}" if several else words

    attained = "\n".join(of(k, share(x.value)) for k, x in effect.attainment.items())
    points = "\n".join(
        of(k, f"{100 * x.value:+.2f} ± {50 * (x.high - x.low):.2f} points")
        for k, x in effect.difference.items()
    )
    needs = NONE
    if effect.accelerators is not None:
        needs = f"{effect.accelerators}, {usd(effect.usd_per_hour)} an hour"
    grows = "\nits backlog grows" if effect.unstable else ""
    return (
        effect.change.replace(": ", ":\n"),
        attained + grows,
        points or NONE,
        _cost(effect.usd_per_thousand_compliant, plan.usd_per_thousand_compliant),
        needs,
    )


def _cost(value: float | None, plan: float | None) -> str:
    if value is None:
        return NONE
    if not plan or value == plan:
        return usd(value)
    if value > MANY * plan:
        return f"{usd(value)} (× {significant(value / plan)})"
    return f"{usd(value)} ({change(value / plan - 1)})"


def _busy(point: BusyPoint, plan: BusyPoint) -> tuple[str, ...]:
    each = dict.fromkeys(f"b{p.max_num_batched_tokens} s{p.max_num_seqs}" for p in point.pools)
    return (
        f"{point.label}\n{', '.join(each)}",
        rate(point.offered_rps),
        rate(point.completed_rps),
        rate(point.goodput_rps),
        share(point.attainment),
        share(point.mfu),
        _cost(point.usd_per_thousand_compliant, plan.usd_per_thousand_compliant),
    )
