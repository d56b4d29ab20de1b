"""Periods: spans of like load, made of the windows of a calendar or of measured series."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage

from planner.errors import InputError, nearest
from planner.measurements.rate_series import read_rate_series

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from planner.scenario.traffic import Profile, Traffic

    Floats = NDArray[np.float64]

MONTH_DAYS: Final = 365.25 / 12
MOST_CLUSTERED: Final = 4_000
"""Windows that are clustered; of longer series, neighbours are averaged first."""


@dataclass(frozen=True, slots=True)
class Period:
    """A span of like load."""

    id: str
    share: float
    """Of all time."""
    level: tuple[float, ...]
    """Load of each workload as a multiple of its mean rate."""
    most: tuple[float, ...] = ()
    """The same in the window in which it is highest."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A window of time in its place among others."""

    period: int
    """Index of the period that it belongs to."""
    level: tuple[float, ...]
    """Load of each deferrable workload as a multiple of its mean rate."""


@dataclass(frozen=True, slots=True)
class Calendar:
    """All periods, and the load that is planned for."""

    periods: tuple[Period, ...]
    """By descending total load."""
    target: tuple[float, ...]
    """Load of each workload that is planned for, as a multiple of its mean rate."""
    notes: tuple[str, ...]
    """What was chosen and how well periods stand for the windows they were made of."""
    slots: tuple[Slot, ...] = ()
    """Windows in order of time, the first after the last; none where no work may wait and no
    fleet adapts."""
    slot_s: float = 3600.0
    """Length of a slot, seconds."""


@dataclass(frozen=True, slots=True)
class _Windows:
    """The finest spans of time that are told apart."""

    names: tuple[str, ...]
    share: Floats
    hour: NDArray[np.int64]
    kind: NDArray[np.int64]
    """0 weekday, 1 weekend, 2 weekday at a month's end, 3 weekend at a month's end."""
    order: NDArray[np.int64]
    """The windows as they follow each other in time, until they repeat."""
    length_s: float = 3600.0


@dataclass(frozen=True, slots=True)
class Over:
    """Over what the promise to a workload counts, where that is not ``plan_for``'s load."""

    what: Literal["period", "worst_hour"]
    attainment: float


def make_calendar(
    traffic: Traffic,
    workloads: tuple[str, ...],
    rates_rps: tuple[float, ...],
    folder: Path,
    deferrable: tuple[str, ...] = (),
    over: Mapping[int, Over] | None = None,
) -> Calendar:
    """Lay out the load over time and choose what to plan for.

    Args:
        traffic: The document.
        workloads: Ids, in the order of the problem.
        rates_rps: Their mean rates.
        folder: Where files named by a relative path lie.
        deferrable: Ids of workloads that may wait; periods are those of the others.
        over: By index of the workload, over what its promise counts, where that is said.

    Raises:
        InputError: A profile names no workload of the scenario, or a series cannot be read.
    """
    mine = [_profile_of(traffic, name) for name in (*workloads, *deferrable)]
    known = {*workloads, *deferrable}
    for given in traffic.profiles:
        for name in given.workloads or ():
            if name not in known:
                raise InputError(f"profiles: no workload {name!r}; {nearest(name, known)}")
    series = [
        None
        if profile is None or profile.series is None
        else read_rate_series(
            folder / profile.series.file,
            (profile.series.start, profile.series.rate),
            profile.series.name,
        )
        for profile in mine
    ]
    windows, measured = _windows(traffic, series)
    level = np.ones((len(windows.names), len(mine)))
    for w, profile in enumerate(mine):
        column = measured.get(w)
        if column is None and profile is not None:
            column = _by_hour(profile, windows)
        if column is not None:
            level[:, w] = column / float((column * windows.share).sum())
    growth = traffic.growth
    grown = (1 + growth.per_quarter) ** growth.quarters if growth else 1.0
    level, waiting = level[:, : len(workloads)], level[:, len(workloads) :] * grown
    target = _target(traffic, level, windows.share)
    for w, one in (over or {}).items():
        target[w] = _counted(one, level[:, w], windows.share)
    target = target * traffic.peak_factor * grown
    periods, member, note = _cluster(level, windows, np.array(rates_rps), traffic.clusters)
    grown_periods = tuple(
        replace(p, level=tuple(x * grown for x in p.level), most=tuple(x * grown for x in p.most))
        for p in periods
    )
    return Calendar(
        grown_periods,
        tuple(target.tolist()),
        (*_said(traffic, target, workloads, over or {}), *_said_over(workloads, over or {}), note),
        tuple(Slot(int(member[i]), tuple(waiting[i].tolist())) for i in windows.order)
        if deferrable or traffic.adapt == "hourly"
        else (),
        windows.length_s,
    )


def _profile_of(traffic: Traffic, name: str) -> Profile | None:
    named = [p for p in traffic.profiles if p.workloads is not None and name in p.workloads]
    rest = [p for p in traffic.profiles if p.workloads is None]
    return next(iter((*named, *rest)), None)


def _windows(
    traffic: Traffic, series: list[tuple[Floats, Floats] | None]
) -> tuple[_Windows, dict[int, Floats]]:
    """Return the windows of the measured series if there are any, else those of a calendar."""
    given = {w: one for w, one in enumerate(series) if one is not None}
    if not given:
        return _calendar_windows(traffic), {}
    starts = next(iter(given.values()))[0]
    if any(not np.array_equal(starts, other) for other, _ in given.values()):
        raise InputError("profiles: the series have windows of different times; bring them to one")
    rates = {w: rate for w, (_, rate) in given.items()}
    merge = -(-starts.size // MOST_CLUSTERED)
    if merge > 1:
        whole = starts.size // merge * merge
        starts = starts[:whole:merge]
        rates = {w: r[:whole].reshape(-1, merge).mean(axis=1) for w, r in rates.items()}
    hour = (starts // 3600).astype(np.int64)
    kind = ((hour // 24) % 7 >= 5).astype(np.int64)
    names = tuple(
        f"day {h // 24 + 1} {h % 24:02d}:{int(s % 3600 // 60):02d}"
        for h, s in zip(hour.tolist(), starts.tolist(), strict=True)
    )
    share = np.full(starts.size, 1 / starts.size)
    length_s = float(np.median(np.diff(starts))) if starts.size > 1 else 3600.0
    return _Windows(names, share, hour % 24, kind, np.arange(starts.size), length_s), rates


def _calendar_windows(traffic: Traffic) -> _Windows:
    """Return 24 hours of each kind of day, each with its share of all time."""
    days = max((p.month_end.days for p in traffic.profiles if p.month_end), default=0)
    end = days / MONTH_DAYS
    kinds = [("weekday", 5 / 7 * (1 - end)), ("weekend", 2 / 7 * (1 - end))]
    if days:
        kinds += [
            ("weekday at a month's end", 5 / 7 * end),
            ("weekend at a month's end", 2 / 7 * end),
        ]
    names = tuple(f"{kind} {h:02d}:00" for kind, _ in kinds for h in range(24))
    share = np.repeat([part / 24 for _, part in kinds], 24)
    hours = np.tile(np.arange(24), len(kinds))
    sort = np.repeat(np.arange(len(kinds)), 24)
    return _Windows(names, share, hours, sort, _days_in_order(days))


def _days_in_order(month_end: int) -> NDArray[np.int64]:
    """Return the hours of a week, or of four weeks whose last days are a month's end."""
    days = np.arange(28 if month_end else 7)
    kind = (days % 7 >= 5) + 2 * (days >= days.size - month_end)
    return np.asarray((kind[:, None] * 24 + np.arange(24)).ravel(), np.int64)


def _by_hour(profile: Profile, windows: _Windows) -> Floats:
    weekday = np.array(profile.weekday)
    weekend = np.array(profile.weekend or profile.weekday)
    level = np.where(windows.kind % 2 == 1, weekend[windows.hour], weekday[windows.hour])
    if profile.month_end is not None:
        level = level * np.where(windows.kind >= 2, profile.month_end.factor, 1.0)
    return np.asarray(level, np.float64)


def _target(traffic: Traffic, level: Floats, share: Floats) -> Floats:
    """Return what is planned for: of each workload for itself, whenever that is."""
    if traffic.plan_for == "peak":
        return np.asarray(level.max(axis=0))
    if traffic.plan_for == "mean":
        return np.ones(level.shape[1])
    wanted = float(traffic.plan_for[1:]) / 100
    found = []
    for column in level.T:
        order = np.argsort(column)
        below = np.cumsum(share[order])
        found.append(column[order][min(int(np.searchsorted(below, wanted)), column.size - 1)])
    return np.array(found)


def _counted(over: Over, level: Floats, share: Floats) -> float:
    """Return the load to plan for, for a promise that counts over the hours.

    The busiest hour, if it counts alone; else the load up to which the promised share of the
    requests come: attainment falls so steeply past the capacity that busier hours are lost.
    """
    if over.what == "worst_hour":
        return float(level.max())
    order = np.argsort(level, kind="stable")
    come = np.cumsum((share * level)[order])
    at = int(np.searchsorted(come, over.attainment * come[-1]))
    return float(level[order][min(at, level.size - 1)])


def _said_over(workloads: tuple[str, ...], over: Mapping[int, Over]) -> list[str]:
    words = {
        "worst_hour": "its promise counts in each hour by itself: planned for its busiest",
        "period": "its promise counts over all requests of all periods: planned for the load up to"
        " which the promised share of them come",
    }
    return [f"{workloads[w]}: {words[one.what]}" for w, one in over.items()]


def _said(
    traffic: Traffic, target: Floats, workloads: tuple[str, ...], over: Mapping[int, Over]
) -> list[str]:
    each = ", ".join(f"{x:.3g} x {name}" for x, name in zip(target, workloads, strict=True))
    how = "what promises count over" if len(over) == len(workloads) else traffic.plan_for
    if over and len(over) < len(workloads):
        how += " or what promises count over"
    if traffic.peak_factor != 1:
        how += f" x peak factor {traffic.peak_factor:g}"
    if traffic.growth is not None:
        how += f" x {1 + traffic.growth.per_quarter:g}^{traffic.growth.quarters} of growth"
    together = "; each at its own time, though they may not coincide" if len(workloads) > 1 else ""
    return [f"planned for {how}: {each} of the mean rate{together}"]


def _cluster(
    level: Floats, windows: _Windows, rates_rps: Floats, most: int
) -> tuple[tuple[Period, ...], NDArray[np.int64], str]:
    """Put windows of like load together (Ward's criterion); the busiest of each stay alone.

    Returns:
        The periods, the period of each window, and how like the windows of a period are.
    """
    load = level * rates_rps
    total = load.sum(axis=1)
    peaks = {int(total.argmax()), *(int(i) for i in load.argmax(axis=0))}
    rest = np.array([i for i in range(total.size) if i not in peaks], np.int64)
    room = max(most - len(peaks), 1)
    groups = [np.array([i]) for i in sorted(peaks)]
    if rest.size > 1:
        labels = fcluster(linkage(load[rest], "ward"), room, "maxclust")
        groups += [rest[labels == label] for label in np.unique(labels)]
    elif rest.size:
        groups.append(rest)
    periods: list[tuple[Period, NDArray[np.int64]]] = []
    off = np.zeros_like(total)
    for group in groups:
        share = windows.share[group]
        mean = (level[group] * share[:, None]).sum(axis=0) / share.sum()
        off[group] = total[group] / max(float((mean * rates_rps).sum()), 1e-300) - 1
        busiest = windows.names[int(group[total[group].argmax()])]
        name = busiest if group.size == 1 else f"{busiest} and {group.size - 1} like it"
        highest = tuple(level[group].max(axis=0).tolist())
        periods.append((Period(name, float(share.sum()), tuple(mean.tolist()), highest), group))
    periods.sort(key=lambda p: -float((np.array(p[0].level) * rates_rps).sum()))
    member = np.zeros(total.size, np.int64)
    for i, (_, group) in enumerate(periods):
        member[group] = i
    spread = float(np.sqrt((off**2 * windows.share).sum()))
    note = (
        f"{total.size} windows of time in {len(periods)} periods; the load of a window differs"
        f" from its period's by {spread:.1%} (root mean square), at most {off.max():.1%} above it;"
        " the busiest window of all, and of each workload, is a period of its own"
    )
    return tuple(period for period, _ in periods), member, note
