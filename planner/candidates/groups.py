"""Groups of prefill and decode replicas: which pairs, in which ratio, over which link.

A group is n_P prefill replicas of one build and n_D decode replicas of another; the two may differ
in accelerator, degree and policy, but not in model, precision and format of the cache. Every
number of units of a group serves as so many groups, so small groups near the balance of their two
sides are enough: a larger pool is several.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.candidates.frontier import setup_of
from planner.candidates.link_classes import Meeting, meetings_of, on_a_node, room_for
from planner.candidates.meanfield import CoarseCapacity, Moments, coarse_bounds, moments
from planner.candidates.number_formats import suits
from planner.candidates.physics import empty_replica
from planner.candidates.screen import KEEPS_AT_NO_LOAD, Screened
from planner.candidates.template import Build, Removed, Template
from planner.curves.memory import kv_moved_bytes
from planner.kernels.engine import COMPILED, STATUS
from planner.problem.arrivals import UserArrivals
from planner.simulation.capacity import coarse_capacity
from planner.simulation.group import GroupSetup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from planner.problem.resolve import Problem
    from planner.scenario.disaggregation import KvLink
    from planner.simulation.effort import Effort
    from planner.simulation.fleet import Study
    from planner.topology import Level, Way

    Ints = NDArray[np.int32]

SIDES: Final = 6
"""Builds of each side that are paired, beside the cheapest of every accelerator."""
RATIOS: Final = 3
"""Ratios of a pair that are looked at: those that cost least per request by their bound."""
SIMULATED: Final = 12
"""Groups that are simulated, cheapest by their bound first."""
KEPT: Final = 3
"""Groups that go on to be measured, by either cost, beside the best of each set of accelerators."""
DRAWN: Final = 4_000
ROOMY: Final = 1.5
"""Where a nearer link has room for so many times the groups of a demand, farther ones are left
out."""
SPARE: Final = 0.85
"""Share of its mean-field load at which a prefill side is taken to keep a deadline on TTFT, where
ratios are ranked; simulation decides."""


@dataclass(frozen=True, slots=True)
class Group:
    """Both sides of a unit, and what lies between them."""

    prefill: Build
    decode: Build
    n_prefill: int
    n_decode: int
    link: KvLink
    hand_off_s: float
    kv_bytes_per_token: float
    """That cross the link, all ranks of a decode replica together."""
    prompt_tokens: float = 0.0
    """Mean prompt."""
    level: Level | None = None
    """Nearest common place of the sides, where a topology says what links them."""
    ways: tuple[Way, ...] = ()
    """Between which domains of it; none within a scale-up domain."""
    on_a_node: int = 1
    """Groups that may share what one node sends."""

    @property
    def id(self) -> str:
        """Name such as ``p2.h100-sxm.tp1.fp8.b8192.s64-d1.h100-sxm.tp2.fp8.b2048.s256``.

        In a topology it ends with where the sides meet, such as ``:rack``.
        """
        meet = f":{self.level}" if self.level is not None else ""
        return f"p{self.n_prefill}.{self.prefill.id}-d{self.n_decode}.{self.decode.id}{meet}"

    @property
    def kv_bytes_per_request(self) -> float:
        """That cross the link for a request, in the mean."""
        return self.kv_bytes_per_token * self.prompt_tokens

    @property
    def sides(self) -> tuple[tuple[Build, int], tuple[Build, int]]:
        """Builds and replicas: prefill, then decode."""
        return (self.prefill, self.n_prefill), (self.decode, self.n_decode)

    @property
    def hardware(self) -> str:
        """The same without policies."""
        sides = f"p{self.n_prefill}.{self.prefill.hardware}", f"d{self.n_decode}"
        return f"{'-'.join(sides)}.{self.decode.hardware}"

    @property
    def devices(self) -> dict[str, int]:
        """Accelerators of a group, by type."""
        held = {name: n * self.n_prefill for name, n in self.prefill.devices.items()}
        for name, n in self.decode.devices.items():
            held[name] = held.get(name, 0) + n * self.n_decode
        return held

    @property
    def usd_per_hour(self) -> float:
        """Price of a group."""
        return self.n_prefill * self.prefill.usd_per_hour + self.n_decode * self.decode.usd_per_hour

    def transfer_s(self, prompt: NDArray[np.float64] | float) -> NDArray[np.float64] | float:
        """Return what the KV of a prompt takes on an idle link."""
        return self.link.latency + prompt * self.kv_bytes_per_token / self.link.bandwidth

    def setup(self) -> GroupSetup:
        """Return the numbers that the simulation needs beside the decode side's."""
        return GroupSetup(
            self.prefill.law,
            self.prefill.limits,
            self.n_prefill,
            self.n_decode,
            round(self.kv_bytes_per_token / self.link.bandwidth * 1e12),
            round(self.link.latency * 1e12),
            round(self.hand_off_s * 1e12),
            self.link.sharing,
            self.on_a_node,
        )


def group_build(group: Group) -> Build:
    """Return a build whose units are groups."""
    return replace(group.decode, group=group, usd_per_hour=group.usd_per_hour)


def kv_bytes_per_token(decode: Build, prompt_tokens: float) -> float:
    """Return bytes that cross the link for a token of a prompt.

    Every rank of the decode replica reads what it will hold: KV heads are replicated where the
    degree exceeds their number, and latent attention is read whole by every rank. Layers with a
    window send their window only, so this is a mean at a length of prompt.

    Args:
        decode: A decode replica.
        prompt_tokens: Mean prompt.
    """
    curve, tokens = decode.curve, max(round(prompt_tokens), 1)
    layout = curve.layout
    moved = kv_moved_bytes(curve.llm, tokens, layout.tp_degree, curve.kv_dtype, layout.pp_degree)
    return moved / tokens


@dataclass(frozen=True, slots=True)
class Work:
    """What requests bring to the two sides: a draw, and its means."""

    prompt: Ints
    output: Ints
    workload: Ints

    def prefill(self, budget: int) -> Moments:
        """Return what a prefill replica sees: the prompts."""
        return moments(self.prompt, np.ones_like(self.output), budget)

    def decode(self) -> Moments:
        """Return what a decode replica sees: a step per output token, the first included."""
        p, d = self.prompt.astype(float), self.output.astype(float)
        context = float((d * p + d * (d - 1) / 2).mean())
        return Moments(0.0, float(d.mean()), 0.0, context, float(d.mean()), 0.0)


def _work(study: Study, rates_rps: tuple[float, ...]) -> Work:
    draw = study.draws.get(rates_rps, DRAWN, 0, 0)
    return Work(draw.prompt, draw.output, draw.workload)


def mean_prompt(study: Study, rates_rps: tuple[float, ...]) -> float:
    """Return the mean prompt of a mix, tokens."""
    return float(_work(study, rates_rps).prompt.mean())


@dataclass(frozen=True, slots=True)
class Side:
    """A build as one side of a group, with the most that one replica can carry."""

    build: Build
    bound: CoarseCapacity

    @property
    def usd_per_request(self) -> float:
        """Price over the bound."""
        return self.build.usd_per_hour / 3600 / self.bound.load_rps


@dataclass(frozen=True, slots=True)
class Sides:
    """The two sides of all groups for some workloads, cheapest per request first."""

    prefill: tuple[Side, ...]
    decode: tuple[Side, ...]


def sides_of(problem: Problem, study: Study, builds: Sequence[Build], template: Template) -> Sides:
    """Return the builds that may be a side of groups for a template's workloads.

    Bounds are means without randomness: a prefill side is limited by its compute and cache alone,
    a decode side by the tightest deadline between tokens, its seats and its cache.
    """
    work = _work(study, template.mix_rps)
    own = [problem.demands[w].slo for w in template.serves]
    pace = min(min(slo.tpot, slo.max_itl or math.inf) for slo in own)
    plain = [b for b in builds if b.priority is None and not b.step_wise]
    plain = [b for b in plain if b.curve.speculation is None]
    first = coarse_bounds(
        plain, [work.prefill(b.max_num_batched_tokens) for b in plain], [math.inf] * len(plain)
    )
    then = coarse_bounds(plain, [work.decode()] * len(plain), [pace] * len(plain))
    return Sides(_cheapest(plain, first), _cheapest(plain, then))


def _cheapest(builds: Sequence[Build], bounds: Sequence[CoarseCapacity]) -> tuple[Side, ...]:
    """Keep the best policy of every hardware, then the cheapest, and one of each accelerator."""
    sides = [Side(b, c) for b, c in zip(builds, bounds, strict=True) if c.load_rps > 0]
    sides.sort(key=lambda s: (s.usd_per_request, s.build.id))
    kept: list[Side] = []
    hardware, accelerators = set[str](), set[str]()
    for side in sides:
        build = side.build
        if build.hardware in hardware:
            continue
        hardware.add(build.hardware)
        if len(kept) < SIDES or build.accelerator not in accelerators:
            kept.append(side)
            accelerators.add(build.accelerator)
    return tuple(kept)


def _pairs(
    problem: Problem, sides: Sides, prompt_tokens: float, demand_rps: float
) -> Iterator[Group]:
    """Yield groups of every pair near the balance of its sides, and of little waste at a demand.

    Each over the nearest link that its sides can have.
    """
    policy = problem.policies.disaggregation
    assert policy is not None  # the caller has looked
    known: dict[object, tuple[Meeting, ...]] = {}
    for p in sides.prefill:
        for d in sides.decode:
            same = (
                p.build.precision == d.build.precision
                and p.build.curve.kv_dtype == d.build.curve.kv_dtype
            )
            if not same:
                continue
            moved = kv_bytes_per_token(d.build, prompt_tokens)
            ratios = []
            for n_p in range(1, policy.max_replicas):
                for n_d in range(1, policy.max_replicas - n_p + 1):
                    both = ((p.build, n_p), (d.build, n_d))
                    size = n_p * p.build.devices_per_replica + n_d * d.build.devices_per_replica
                    kinds = p.build.accelerator, d.build.accelerator
                    key = (*kinds, size, min(b.devices_per_replica for b, _ in both))
                    if key not in known:
                        known[key] = meetings_of(problem, both)
                    if not known[key]:
                        continue
                    near = known[key][0]
                    load = _bound(p, d, (n_p, n_d), near.link, moved * prompt_tokens)
                    usd = n_p * p.build.usd_per_hour + n_d * d.build.usd_per_hour
                    fleet = math.ceil(demand_rps / load) * usd
                    hope = math.ceil(SPARE * demand_rps / load) * usd
                    ratios.append((usd / load, fleet, hope, n_p, n_d, near))
            best = {
                r[:5]: r[5]
                for k in (0, 1, 2)
                for r in sorted(ratios, key=itemgetter(k, 0, 1, 2, 3, 4))[:RATIOS]
            }
            for (*_, n_p, n_d), near in sorted(best.items(), key=itemgetter(0)):
                both = (p.build, n_p), (d.build, n_d)
                yield met(problem, both, near, moved, prompt_tokens)


def met(
    problem: Problem,
    sides: tuple[tuple[Build, int], tuple[Build, int]],
    meeting: Meeting,
    kv_bytes: float,
    prompt_tokens: float,
) -> Group:
    """Return a group whose sides meet.

    Args:
        problem: The question.
        sides: Builds and replicas: prefill, then decode.
        meeting: Over which link, and where.
        kv_bytes: That cross the link for a token.
        prompt_tokens: Mean prompt.
    """
    policy = problem.policies.disaggregation
    assert policy is not None  # the caller looks for groups
    (first, n_first), (then, n_then) = sides
    return Group(
        *(first, then, n_first, n_then, meeting.link, policy.hand_off, kv_bytes, prompt_tokens),
        level=meeting.level,
        ways=meeting.ways,
        on_a_node=on_a_node(problem, meeting, sides),
    )


def _bound(
    p: Side, d: Side, ratio: tuple[int, int], link: KvLink, bytes_per_request: float
) -> float:
    """Return the mean-field load of a group, its prefill side with room for its deadline."""
    return min(
        SPARE * ratio[0] * p.bound.load_rps,
        ratio[1] * d.bound.load_rps,
        link.bandwidth / bytes_per_request,
    )


@dataclass(frozen=True, slots=True)
class Grouped:
    """What became of groups: those to measure, and those left out."""

    screened: tuple[Screened, ...]
    removed: tuple[Removed, ...]


def screen_groups(
    problem: Problem,
    study: Study,
    builds: Sequence[Build],
    templates: dict[tuple[int, ...], list[Template]],
    effort: Effort,
    check: Callable[[], None] = lambda: None,
) -> Grouped:
    """Choose the groups to measure, where the scenario states a link.

    Args:
        problem: The question.
        study: Draws, deadlines and promises of the problem.
        builds: What can be built; all may be a side, those that could not serve alone included.
        templates: Replicas that do both, by the workloads they serve: groups serve the same sets,
            and every workload alone.
        effort: How much to simulate.
        check: Called before each run; raises where the time is over.
    """
    policy = problem.policies.disaggregation
    kept: list[Screened] = []
    removed: list[Removed] = []
    if policy is None:
        return Grouped((), ())
    if not COMPILED and policy.choose == "search":
        why = f"{STATUS}; disaggregation.choose: always searches groups all the same, in hours"
        return Grouped((), (Removed("groups of prefill and decode replicas", why, {}),))

    if any(build.step_wise for build in builds):
        why = "ranks and pipeline stages are planned for replicas that do both only"
        removed.append(Removed("groups of prefill and decode replicas of ranks", why, {}))
    if problem.policies.speculative_decoding:
        why = "speculative decoding is planned for replicas that do both only"
        removed.append(Removed("groups of prefill and decode replicas that draft", why, {}))

    def coarse(template: Template, guess_rps: float) -> float:
        check()
        setup = setup_of(template.build, 1, problem.policies.router)
        runs = effort.screen_requests
        return coarse_capacity(study, setup, template.mix_rps, guess_rps, runs, check)

    for serves in _sets(problem, templates):
        own = [b for b in builds if suits(problem.demands, b, serves)]
        if own:
            mix = tuple(d.rate_rps if w in serves else 0.0 for w, d in enumerate(problem.demands))
            label = ":".join(problem.demands[w].id for w in serves)
            seed = Template(own[0], serves, mix, label)
            one = _screen_set(problem, study, own, seed, coarse)
            kept += one.screened
            removed += one.removed
    return Grouped(tuple(kept), tuple(removed))


def _sets(
    problem: Problem, templates: dict[tuple[int, ...], list[Template]]
) -> list[tuple[int, ...]]:
    """Return the sets of workloads that groups may serve; users who wait are left out."""
    alone = [(w,) for w in range(len(problem.demands))]
    sets = [*templates, *(alone if problem.policies.sharing != "shared" else [])]
    if problem.policies.sharing == "shared" or not templates:
        for model in dict.fromkeys(d.model for d in problem.demands):
            mine = tuple(w for w, d in enumerate(problem.demands) if d.model == model)
            sets.append(mine)
    waits = [isinstance(d.arrivals, UserArrivals) for d in problem.demands]
    return sorted({s for s in sets if not any(waits[w] for w in s)})


def _screen_set(
    problem: Problem,
    study: Study,
    builds: Sequence[Build],
    seed: Template,
    coarse: Callable[[Template, float], float],
) -> Grouped:
    """Screen the groups that serve one set of workloads.

    Args:
        problem: The question.
        study: Draws, deadlines and promises of the problem.
        builds: What may be a side.
        seed: A template of any build that serves the set.
        coarse: Simulates a group coarsely, from a guess of its capacity.
    """
    kept: list[Screened] = []
    removed: list[Removed] = []
    prompt_tokens = mean_prompt(study, seed.mix_rps)
    sides = sides_of(problem, study, builds, seed)
    bounded: list[tuple[float, Template, CoarseCapacity]] = []
    groups = list(_pairs(problem, sides, prompt_tokens, sum(seed.mix_rps)))
    if sides.prefill and sides.decode and not groups:
        why = "no link of the topology joins nodes that hold a prefill and a decode side"
        removed.append(Removed(f"groups of prefill and decode replicas for {seed.label}", why, {}))
    for group in groups:
        template = replace(seed, build=group_build(group))
        barrier = too_slow(problem, study, group, seed)
        if barrier is not None:
            removed.append(Removed(template.id, *barrier))
            continue
        bound = bound_of(sides, group, prompt_tokens)
        bounded.append((group.usd_per_hour / 3600 / bound.load_rps, template, bound))
    found: list[Screened] = []
    for template, bound in _worth_a_run(bounded, removed):
        rate = coarse(template, 0.75 * bound.load_rps)
        if rate <= 0:
            removed.append(Removed(template.id, KEEPS_AT_NO_LOAD, {}))
            continue
        found.append(Screened(template, bound, rate))
    _keep(found, kept, removed)
    for one in tuple(kept):
        _farther(problem, study, one, (kept, removed), coarse)
    return Grouped(tuple(kept), tuple(removed))


def _farther(
    problem: Problem,
    study: Study,
    one: Screened,
    lists: tuple[list[Screened], list[Removed]],
    coarse: Callable[[Template, float], float],
) -> None:
    """Add a group over farther links too, where those that meet nearer might not find room.

    Args:
        problem: The question.
        study: Draws, deadlines and promises of the problem.
        one: A group over the nearest link.
        lists: What is kept, and what is left out; both grow.
        coarse: Simulates a group coarsely, from a guess of its capacity.
    """
    group, topology = one.template.build.group, problem.topology
    if group is None or group.level is None or topology is None:
        return
    kept, removed = lists
    sides = group.sides
    sent = one.capacity_rps * group.kv_bytes_per_request
    wanted = ROOMY * sum(one.template.mix_rps) / one.capacity_rps
    meetings = meetings_of(problem, sides)
    nearer = Meeting(group.link, group.level, group.ways)
    room = room_for(topology, nearer, sides, sent)
    for meeting in meetings[1:]:
        other = met(problem, sides, meeting, group.kv_bytes_per_token, group.prompt_tokens)
        template = replace(one.template, build=group_build(other))
        alone = float(other.transfer_s(other.prompt_tokens))
        numbers = {
            "transfer_when_idle_s": alone,
            "bandwidth_bytes_per_s": other.link.bandwidth,
            "kv_bytes_per_request": other.kv_bytes_per_request,
        }
        if room >= wanted:
            why = (
                f"sides that meet nearer find room ({nearer.level}); over {meeting.level} the KV of"
                f" a mean prompt takes {alone * 1e3:.3g} ms instead of"
                f" {float(group.transfer_s(group.prompt_tokens)) * 1e3:.3g}"
            )
            removed.append(Removed(template.id, why, numbers))
            continue
        barrier = too_slow(problem, study, other, template)
        rate = 0.0 if barrier is not None else coarse(template, one.capacity_rps)
        if barrier is not None:
            removed.append(Removed(template.id, *barrier))
        elif rate <= 0:
            removed.append(Removed(template.id, KEEPS_AT_NO_LOAD, numbers))
        else:
            kept.append(Screened(template, one.bound, rate))
            room += room_for(topology, meeting, sides, sent)


def _worth_a_run(
    bounded: list[tuple[float, Template, CoarseCapacity]], removed: list[Removed]
) -> Iterator[tuple[Template, CoarseCapacity]]:
    """Yield the groups that cost least by their bounds: per request, and in whole groups.

    Two of every set of accelerators are among them whatever they cost.
    """
    bounded.sort(key=lambda item: (item[0], item[1].id))

    def whole(item: tuple[float, Template, CoarseCapacity], spare: float) -> tuple[float, float]:
        usd, template, bound = item
        units = math.ceil(sum(template.mix_rps) / (spare * bound.load_rps))
        return units * template.build.usd_per_hour, usd

    by_fleet = sorted(bounded, key=lambda item: whole(item, SPARE))
    hopeful = sorted(bounded, key=lambda item: whole(item, 1.0))
    most = SIMULATED // 3
    near = (*bounded[:most], *by_fleet[:most], *hopeful[:most])
    chosen = {template.id for _, template, _ in near}
    seen: dict[frozenset[str], int] = {}
    for _, template, _ in by_fleet:
        kinds = frozenset(template.build.devices)
        seen[kinds] = seen.get(kinds, 0) + 1
        if seen[kinds] <= 2:
            chosen.add(template.id)
    for _, template, bound in bounded:
        if template.id in chosen:
            yield template, bound
        else:
            removed.append(Removed(template.id, "dearer by its bound than other groups", {}))


def _keep(found: list[Screened], kept: list[Screened], removed: list[Removed]) -> None:
    """Keep the cheapest per request, the cheapest whole fleets, and one of each pair."""
    found.sort(key=lambda s: (s.usd_per_request, s.template.id))
    kinds = set[frozenset[str]]()
    by_fleet = sorted(found, key=lambda s: (s.usd_per_hour, s.usd_per_request, s.template.id))
    near = {s.template.id for s in (*found[:KEPT], *by_fleet[:KEPT])}
    for one in found:
        kind = frozenset(one.template.build.devices)
        if one.template.id in near or kind not in kinds:
            kept.append(one)
            kinds.add(kind)
        else:
            more = one.usd_per_request / found[0].usd_per_request - 1
            why = f"{more:.0%} dearer per request by a coarse simulation of one group"
            removed.append(Removed(one.template.id, why, {}))


def bound_of(sides: Sides, group: Group, prompt_tokens: float) -> CoarseCapacity:
    """Return the most that a group can carry, by the means of its sides and its link."""
    p = next(s for s in sides.prefill if s.build is group.prefill)
    d = next(s for s in sides.decode if s.build is group.decode)
    limits = (
        (group.n_prefill * p.bound.load_rps, "prefill"),
        (group.n_decode * d.bound.load_rps, "decode"),
        (group.link.bandwidth / (group.kv_bytes_per_token * prompt_tokens), "link"),
    )
    return CoarseCapacity(*min(limits))


def too_slow(
    problem: Problem, study: Study, group: Group, template: Template
) -> tuple[str, dict[str, float]] | None:
    """Say why an empty group cannot keep a promise, so that no number of groups can; else None."""
    for w in template.serves:
        demand = problem.demands[w]
        longest = min(group.prefill.kv_tokens, group.decode.kv_tokens)
        only = tuple(float(v == w) for v in range(len(problem.demands)))
        work = _work(study, only)
        if int((work.prompt + work.output).max()) > longest:
            why = f"a side holds {longest:,} tokens of KV cache; requests of {demand.id} need more"
            return why, {"kv_tokens": float(longest)}
        prefill, _ = empty_replica(group.prefill, work.prompt, np.ones_like(work.output))
        _, pace = empty_replica(group.decode, work.prompt, work.output)
        moved = np.asarray(group.transfer_s(work.prompt.astype(float)))
        law = group.decode.curve.step_law
        step = float(law.tokens_s(np.array([1.0]))[0]) + law.c_n_s_per_request
        ttft = prefill + group.hand_off_s + moved + step + law.c_k_s_per_token * work.prompt
        limit = study.deadlines.ttft_limit_ps(np.full(ttft.size, w, np.int32), work.prompt)
        good = (ttft <= limit * 1e-12) & (pace <= demand.slo.tpot)
        share = float(good.mean())
        if share < demand.slo.attainment:
            middle, link = float(np.median(work.prompt)), group.link
            at = float(np.median(moved))
            why = (
                f"even an empty group keeps {share:.1%} of {demand.id} ({demand.slo.attainment:.1%}"
                f" promised): the KV of a prompt of {middle:,.0f} tokens,"
                f" {middle * group.kv_bytes_per_token / 1e6:,.0f} MB, takes {at * 1e3:,.0f} ms over"
                f" {link.transport}; prefill takes {float(np.median(prefill)) * 1e3:,.0f} ms of a"
                f" TTFT of {demand.slo.ttft * 1e3:,.0f} ms"
            )
            return why, {"attainment_when_empty": share, "transfer_s": at}
    return None


def together(
    problem: Problem, colocated: list[Screened], groups: Sequence[Screened]
) -> list[Screened]:
    """Return replicas that do both beside groups, or groups alone where the scenario wants them.

    A workload that no group can serve keeps its other replicas.
    """
    policy = problem.policies.disaggregation
    if policy is None or policy.choose == "search":
        return [*colocated, *groups]
    served = {w for one in groups for w in one.template.serves}
    rest = [one for one in colocated if not served.issuperset(one.template.serves)]
    return [*rest, *groups]
