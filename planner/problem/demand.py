"""What a workload asks for, from its documents and the files they name to laws of numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from planner.errors import InputError
from planner.measurements.client_sets import client_set_of, read_client_set, sample_requests
from planner.measurements.requests import RequestColumns, read_requests
from planner.measurements.span_requests import find_spans, read_span_requests
from planner.measurements.traces import read_histogram
from planner.problem.arrivals import (
    ArrivalLaw,
    BurstArrivals,
    PoissonArrivals,
    RenewalArrivals,
    ReplayArrivals,
    SessionArrivals,
    UserArrivals,
)
from planner.problem.lengths import (
    CutLengths,
    GammaLength,
    IndependentLengths,
    JointLengths,
    LengthLaw,
    LengthMarginal,
    MarginalLaw,
    MixedLength,
    MixedLengths,
    ParetoLength,
    SessionLengths,
    UniformLength,
    ZipfLength,
    mean_output,
)
from planner.problem.prefixes import (
    ConstantHits,
    HistoryPrefixes,
    PrefixLaw,
    SharedPrefixes,
    TracePrefixes,
)

if TYPE_CHECKING:
    from pathlib import Path

    from planner.catalogue import Catalogue
    from planner.measurements.request_trace import RequestTrace
    from planner.scenario.arrivals import Arrivals, ClosedLoop, Replay, Sessions
    from planner.scenario.lengths import LengthForms, Lengths, Marginal
    from planner.scenario.slo import Slo
    from planner.scenario.workload import Workload

SAMPLE_SEED = 0
"""A client set gives always the same trace."""


def read_trace(path: Path, columns: RequestColumns | None = None) -> RequestTrace:
    """Read a request trace, or draw one from a ServeGen client set.

    Args:
        path: A log, OpenTelemetry spans as OTLP JSON, or client sets: a folder, or a ``.tar.gz``
            of which ``NAME.tar.gz#FOLDER`` names one of several.
        columns: Names of a log's columns.

    Raises:
        InputError: The file cannot be read or makes no sense.
    """
    archive = client_set_of(path)
    if archive is not None:
        clients = read_client_set(*archive)
        try:
            return sample_requests(clients, SAMPLE_SEED)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error
    spans = find_spans(path) if columns is None or columns == RequestColumns() else None
    return read_requests(path, columns) if spans is None else read_span_requests(spans)


def length_law(
    lengths: Lengths, folder: Path, catalogue: Catalogue, context_tokens: int | None
) -> LengthLaw:
    """Return the law of a workload's lengths.

    Args:
        lengths: The document.
        folder: Where files named by a relative path lie.
        catalogue: Has the shipped histograms.
        context_tokens: Context of the model, where it is known.

    Raises:
        InputError: A file cannot be read, or a name is unknown.
    """
    law = _form(lengths, folder, catalogue)
    if lengths.beyond_context == "cut" and context_tokens is not None:
        return CutLengths(law, context_tokens)
    return law


def _form(lengths: LengthForms, folder: Path, catalogue: Catalogue) -> LengthLaw:
    if lengths.prompt is not None and lengths.output is not None:
        prompt, output = _marginal(lengths.prompt), _marginal(lengths.output)
        return IndependentLengths(prompt, output, lengths.correlation or 0.0)
    if lengths.mixture is not None:
        parts = tuple(_form(part, folder, catalogue) for part in lengths.mixture)
        return MixedLengths(parts, tuple(part.weight for part in lengths.mixture))
    if lengths.trace is not None:
        columns = lengths.columns
        names = RequestColumns(prompt=columns.prompt, output=columns.output) if columns else None
        trace = read_trace(folder / lengths.trace, names)
        p, o = trace.prompt.astype(np.int64), trace.output.astype(np.int64)
        return JointLengths(p, p, o, o, np.ones(p.size))
    name = lengths.histogram or ""
    if name.endswith((".csv", ".csv.gz")):
        low, high, out_low, out_high, count = read_histogram(folder / name)
    else:
        cells = catalogue.length_histogram(name).cells
        table = [(c.prompt_low, c.prompt_high, c.output_low, c.output_high, c.count) for c in cells]
        low, high, out_low, out_high, count = np.array(table, np.int64).T
    return JointLengths(low, high, out_low, out_high, count.astype(np.float64))


def _marginal(marginal: Marginal) -> MarginalLaw:
    if marginal.lognormal is not None:
        return LengthMarginal(marginal.lognormal.mean, marginal.lognormal.cv)
    if marginal.gamma is not None:
        return GammaLength(marginal.gamma.mean, marginal.gamma.cv)
    if (pareto := marginal.pareto) is not None:
        return ParetoLength(pareto.minimum, pareto.tail, pareto.maximum or np.inf)
    if (zipf := marginal.zipf) is not None:
        return ZipfLength(zipf.minimum, zipf.maximum, zipf.exponent)
    if (uniform := marginal.uniform) is not None:
        return UniformLength(uniform.minimum, uniform.maximum)
    if marginal.mixture is not None:
        parts = tuple(_marginal(part) for part in marginal.mixture)
        return MixedLength(parts, tuple(part.weight for part in marginal.mixture))
    return LengthMarginal(marginal.fixed or 1.0, 0.0)


def session_laws(
    sessions: Sessions, lengths: LengthLaw, context_tokens: int
) -> tuple[SessionArrivals, SessionLengths]:
    """Return arrivals and lengths of a workload of sessions.

    Args:
        sessions: The document.
        lengths: Law of the new text and the answer of each turn.
        context_tokens: Context of the model.
    """
    law = SessionLengths(
        lengths,
        sessions.turns,
        sessions.most_turns,
        round(sessions.system_prompt or 0),
        context_tokens,
    )
    return SessionArrivals(sessions.rate, sessions.between, sessions.between_cv, law), law


def user_law(
    loop: ClosedLoop, lengths: LengthLaw, slo: Slo, context_tokens: int
) -> tuple[UserArrivals, str]:
    """Return the law of users who wait for their answers, and how their load is counted.

    Args:
        loop: The document.
        lengths: Of their requests.
        slo: Their deadlines, which bound how long a compliant answer takes.
        context_tokens: Context of the model.
    """
    slowest_s = slo.ttft + slo.tpot * max(mean_output(lengths, context_tokens) - 1, 0.0)
    slowest_s = min(slowest_s, slo.e2e or slowest_s)
    think = loop.think_time
    each = 1 / (think.mean + slowest_s)
    law = UserArrivals(loop.users * each, each, think.mean, think.cv)
    note = (
        f"{loop.users:,} users think for {think.mean:g} s between an answer and the next request;"
        f" loads of pools count a user as {each:.4g} req/s, the pace of one whose every answer"
        f" takes all the time that its deadlines allow ({slowest_s:.3g} s in the mean)"
    )
    return law, note


def prefix_law(workload: Workload, arrivals: ArrivalLaw, folder: Path) -> PrefixLaw | None:
    """Return what a workload's prompts begin with; None where nothing is said of it.

    Args:
        workload: The document.
        arrivals: Its law of arrivals.
        folder: Where files named by a relative path lie.

    Raises:
        InputError: It does not go together with the arrivals.
    """
    prefix = workload.prefix
    if prefix is None:
        return None
    if workload.arrivals.closed_loop is not None:
        raise InputError("a pool of users who wait is simulated without a cache; leave it out")
    sessions = workload.arrivals.sessions is not None
    if prefix.trace is not None:
        return _trace_prefixes(workload, arrivals, folder / prefix.trace, folder)
    if prefix.history is not None:
        if not sessions:
            raise InputError("only arrivals.sessions have a history; give system_prompt or popular")
        return HistoryPrefixes()
    if prefix.hit_rate is not None:
        return ConstantHits(prefix.hit_rate)
    if sessions:
        raise InputError(
            "prompts of arrivals.sessions begin with its own system_prompt; write"
            " prefix: {history: true}"
        )
    popular = prefix.popular
    system = round(prefix.system_prompt or 0)
    if popular is None:
        return SharedPrefixes(system, 0, 0, 0.0, 0.0)
    return SharedPrefixes(system, popular.count, round(popular.tokens), popular.zipf, popular.share)


def _trace_prefixes(
    workload: Workload, arrivals: ArrivalLaw, file: Path, folder: Path
) -> TracePrefixes:
    replay, lengths = workload.arrivals.replay, workload.lengths.trace
    named = (replay.file if replay is not None else None, lengths)
    if not isinstance(arrivals, ReplayArrivals) or any(
        name is None or folder / name != file for name in named
    ):
        raise InputError(
            f"reuse depends on who comes after whom: give {file.name} as lengths.trace and as"
            " arrivals.replay.file, too"
        )
    if arrivals.prefix is None:
        raise InputError(f"{file}: names no blocks (hash_ids) of its prompts")
    return TracePrefixes(arrivals.prefix.block_tokens)


def arrival_law(
    arrivals: Arrivals, lengths: Lengths, folder: Path
) -> tuple[ArrivalLaw, tuple[str, ...]]:
    """Return the law of a workload's arrivals, and what was assumed of it.

    Args:
        arrivals: The document.
        lengths: Where they are those of the trace that is replayed, each arrival keeps its own.
        folder: Where files named by a relative path lie.

    Raises:
        InputError: The trace cannot be read, or has no times to replay.
    """
    if arrivals.replay is not None:
        return _replay(arrivals.replay, lengths, folder)
    if (bursts := arrivals.bursts) is not None:
        law = BurstArrivals(
            bursts.rate, bursts.burst, bursts.quiet, bursts.quiet_level, bursts.sources
        )
        return law, ()
    if arrivals.gamma is not None:
        return RenewalArrivals(arrivals.gamma.rate, arrivals.gamma.cv, "gamma"), ()
    if arrivals.weibull is not None:
        return RenewalArrivals(arrivals.weibull.rate, arrivals.weibull.cv, "weibull"), ()
    if (users := arrivals.users) is not None:
        return PoissonArrivals(users.rate_rps), (users.formula,)
    return PoissonArrivals(arrivals.poisson or 1.0), ()


def _replay(replay: Replay, lengths: Lengths, folder: Path) -> tuple[ArrivalLaw, tuple[str, ...]]:
    columns = RequestColumns(**replay.columns.model_dump())
    trace = read_trace(folder / replay.file, columns)
    if trace.time_s is None or trace.span_s <= 0:
        raise InputError(f"{folder / replay.file}: has no arrival times; it can give lengths only")
    own = None
    if lengths.trace is not None and folder / lengths.trace == folder / replay.file:
        own = trace.prompt, trace.output
    squeeze, prefix = replay.scale == "squeeze", trace.prefix if own is not None else None
    law = ReplayArrivals(1.0, trace.spread_s(), trace.span_s, own, squeeze, prefix)
    return replace(law, rate_rps=replay.rate or law.trace_rps), trace.notes
