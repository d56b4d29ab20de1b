"""When requests come: at what mean rate, and how unevenly."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from planner.spec import Spec, mistake
from planner.units import LEAST_RPS, MOST_RPS, Fraction, RequestsPerSecond, Seconds, Tokens

Cv = Annotated[float, Field(ge=0, le=20, allow_inf_nan=False)]


class Renewal(Spec):
    """Independent gaps of one distribution."""

    rate: RequestsPerSecond
    """Mean rate."""
    cv: Cv
    """Coefficient of variation of the gaps: 1 is as even as Poisson, more is burstier, 0 a
    metronome."""


class Bursts(Spec):
    """Poisson arrivals whose rate switches between bursts and quiet (an MMPP of two states)."""

    rate: RequestsPerSecond
    """Mean rate, over bursts and quiet."""
    burst: Seconds
    """Mean length of a burst; lengths are exponential."""
    quiet: Seconds
    """Mean time between bursts."""
    quiet_level: Annotated[Fraction, Field(lt=1)] = 0.0
    """Rate between bursts, as a share of the mean rate; 0 is silence."""
    sources: Annotated[int, Field(ge=1, le=1000)] = 1
    """How many independent sources, each with bursts of its own, make the rate together; one
    means that all requests burst at once."""


class TimeColumn(Spec):
    """Columns of a trace, where they are not among the known ones."""

    time: str | None = None
    """Name of the column of arrival times."""
    time_unit: Literal["s", "ms", "us", "ns"] | None = None
    """Unit of numeric times."""
    prompt: str | None = None
    """Name of the column of prompt tokens."""
    output: str | None = None
    """Name of the column of output tokens."""
    status: str | None = None
    """Name of the column that tells failures."""


class Replay(Spec):
    """The arrivals of a trace, with its bursts and its lulls.

    Where the workload's lengths are of the same trace, each arrival keeps its own lengths.
    """

    file: str
    """CSV, JSONL (either with ``.gz``), Parquet, or the ``.tar.gz`` of a ServeGen client set."""
    rate: RequestsPerSecond | None = None
    """Mean rate; the trace's own where left out."""
    scale: Literal["thin", "squeeze"] = "thin"
    """How another rate is made: by thinning at random and by laying shifted copies over each
    other, which keeps the clock; or by squeezing time, which makes bursts shorter too."""
    columns: TimeColumn = TimeColumn()
    """Column names of the trace, where they are not among the known ones."""


class Users(Spec):
    """People: rate = count x active share x requests per active user and hour / 3600.

    Many people who know nothing of each other arrive as a Poisson process.
    """

    count: Annotated[int, Field(ge=1, le=10**11)]
    """Users of the service."""
    active: Annotated[Fraction, Field(gt=0)] = 1.0
    """Share of them who are active at the time that is planned for."""
    requests_per_hour: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]
    """Requests of an active user in an hour."""

    @model_validator(mode="after")
    def _a_rate_that_can_be_planned(self) -> Users:
        if not LEAST_RPS <= self.rate_rps <= MOST_RPS:
            raise mistake(
                f"{self.formula}; a rate lies from {LEAST_RPS:g} to {MOST_RPS:,.0f} req/s", "count"
            )
        return self

    @property
    def rate_rps(self) -> float:
        """Requests per second of all of them."""
        return self.count * self.active * self.requests_per_hour / 3600

    @property
    def formula(self) -> str:
        """The rate and where it comes from, in one line."""
        return (
            f"{self.count:,} users x {self.active:g} active x {self.requests_per_hour:g}"
            f" requests per hour / 3600 = {self.rate_rps:.6g} req/s"
        )


class Sessions(Spec):
    """Conversations of several turns.

    The workload's lengths are the new text and the answer of each turn; a prompt holds the
    system prompt and all that was said before, as far as the model's context goes.
    """

    rate: RequestsPerSecond
    """Mean rate of requests, all turns together."""
    turns: Annotated[float, Field(ge=1, le=1000, allow_inf_nan=False)]
    """Mean number of turns; their numbers are geometric."""
    most_turns: Annotated[int, Field(ge=1, le=10_000)] = 200
    """Longest session."""
    between: Seconds
    """Mean time from the arrival of one turn to that of the next: the answer and the thinking.
    It does not wait for a slow answer."""
    between_cv: Cv = 1.0
    """Coefficient of variation of that time, which is lognormal."""
    system_prompt: Tokens | None = None
    """Beginning of every prompt, the same for all."""


class ThinkTime(Spec):
    """How long a user thinks between an answer and the next request."""

    mean: Seconds
    """Mean."""
    cv: Cv = 1.0
    """Coefficient of variation; times are gamma, 1 is exponential and 0 fixed."""


class ClosedLoop(Spec):
    """A fixed number of users, each of whom waits for an answer before asking again.

    The slower the answers, the fewer the requests: the rate is a result, users / (thinking +
    answering), and each plan says what it is.
    """

    users: Annotated[int, Field(ge=1, le=10**8)]
    """Users at the service at the same time."""
    think_time: ThinkTime
    """From an answer's last token to the user's next request."""


_FORMS = (
    *("poisson", "gamma", "weibull", "bursts", "replay", "users", "sessions"),
    "closed_loop",
)


class Arrivals(Spec):
    """When requests come. Exactly one form is given."""

    poisson: RequestsPerSecond | None = None
    """Independent arrivals at this mean rate: the offered load, served or not."""
    gamma: Renewal | None = None
    """Independent gaps of a gamma distribution."""
    weibull: Renewal | None = None
    """Independent gaps of a Weibull distribution."""
    bursts: Bursts | None = None
    """Bursts and quiet in turn."""
    replay: Replay | None = None
    """The arrivals of a trace."""
    users: Users | None = None
    """From a number of users."""
    sessions: Sessions | None = None
    """Conversations of several turns."""
    closed_loop: ClosedLoop | None = None
    """Users who wait for each answer."""

    @model_validator(mode="after")
    def _one_form(self) -> Arrivals:
        given = [form for form in _FORMS if getattr(self, form) is not None]
        if len(given) != 1:
            what = f"{' and '.join(given)} are given" if given else "none is given"
            raise mistake(f"give exactly one of {', '.join(_FORMS)}; {what}", *given[1:2])
        return self
