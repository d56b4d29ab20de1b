"""``planner catalogue``: what the planner knows, and what it can plan with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec

import typer

from planner.cli.output import emit, emit_json, emit_tables, note
from planner.errors import InputError, nearest

if TYPE_CHECKING:
    from planner.catalogue import Catalogue
    from planner.catalogue.load import Kind
    from planner.curves.curve import Curve

app = typer.Typer(
    help="What the planner knows: accelerators, nodes, models, step laws, prices, lengths.",
    no_args_is_help=True,
)

KINDS = ("accelerators", "nodes", "llms", "step-laws", "prices", "lengths")

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
P = ParamSpec("P")


def _refusing(command: Callable[P, None]) -> Callable[P, None]:
    """Turn a refusal into one line on stderr and exit code 2."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except InputError as error:
            note(str(error))
            raise typer.Exit(error.exit_code) from None

    return run


@app.command("list")
@_refusing
def list_(
    kind: Annotated[str | None, typer.Argument(help=f"One of {', '.join(KINDS)}.")] = None,
    as_json: Json = False,
) -> None:
    """List what the catalogue holds, or the entries of one kind."""
    catalogue = _catalogue()
    if kind is None:
        counts = {
            "accelerators": len(catalogue.accelerator_ids()),
            "nodes": len(catalogue.nodes()),
            "llms": len(catalogue.llm_ids()),
            "step-laws": len(catalogue.laws()),
            "prices": len(catalogue.prices()),
            "lengths": len(catalogue.length_ids()),
        }
        _print(("kind", "entries"), counts.items(), as_json)
        return
    if kind not in KINDS:
        raise InputError(f"the catalogue has no {kind!r}; {nearest(kind, KINDS)}")
    {
        "accelerators": _list_accelerators,
        "nodes": _list_nodes,
        "llms": _list_llms,
        "step-laws": _list_laws,
        "prices": _list_sellers,
        "lengths": _list_lengths,
    }[kind](catalogue, as_json)


@app.command()
@_refusing
def show(
    entry: Annotated[str, typer.Argument(help="Id or alias of an entry.", metavar="ID")],
    as_json: Json = False,
) -> None:
    """Print all that is known of one accelerator, model, step law or length histogram."""
    from planner.spec import dump_json

    catalogue = _catalogue()
    document = catalogue.find_accelerator(entry) or catalogue.find_llm(entry)
    if document is not None:
        kind: Kind = "accelerator" if catalogue.find_accelerator(entry) else "llm"
        emit(dump_json(document) if as_json else catalogue.text(kind, entry))
        return
    if catalogue.is_ambiguous("accelerator", entry):
        catalogue.accelerator(entry)
    laws = {row.id: row for row in catalogue.laws()}
    if entry in laws:
        from planner.curves.curve import curve_of

        _print(("what", "value"), _of_curve(curve_of(catalogue, laws[entry])).items(), as_json)
        return
    if entry in catalogue.length_ids():
        _print(("what", "value"), _of_lengths(catalogue, entry).items(), as_json)
        return
    nodes = [n for n in catalogue.nodes() if n.id == entry]
    if nodes:
        rows = [(n.instance, n.provider, n.accelerator, n.n_accelerators) for n in nodes]
        _print(("instance", "provider", "accelerator", "n_accelerators"), rows, as_json)
        return
    known = [*catalogue.accelerator_ids(), *catalogue.llm_ids(), *laws, *catalogue.length_ids()]
    known += [n.id for n in catalogue.nodes()]
    raise InputError(f"the catalogue has no entry {entry!r}; {nearest(entry, known)}")


@app.command()
@_refusing
def prices(
    accelerator: Annotated[str | None, typer.Option(help="Id or alias.")] = None,
    provider: Annotated[str | None, typer.Option(help="Who sells.")] = None,
    region: Annotated[str | None, typer.Option(help="The provider's region.")] = None,
    term: Annotated[str | None, typer.Option(help="on-demand, spot, reserved-1y ...")] = None,
    as_json: Json = False,
) -> None:
    """Print price points, cheapest per device first."""
    rows = _catalogue().prices(accelerator, provider, region, term)
    header = (
        "accelerator",
        "usd_per_accelerator_hour",
        "n_accelerators",
        "provider",
        "region",
        "term",
        "date",
        "confidence",
    )
    more = ("instance", "usd_per_instance_hour", "source", "note")
    names = (*header, *more) if as_json else header
    cheapest = sorted(rows, key=lambda r: (r.usd_per_accelerator_hour, r.provider, r.region))
    _print(names, ([getattr(r, name) for name in names] for r in cheapest), as_json)


@app.command()
@_refusing
def curves(
    model: Annotated[str, typer.Option(help="Id or alias of a model.")],
    accelerator: Annotated[str | None, typer.Option(help="Id or alias of an accelerator.")] = None,
    engine: Annotated[str | None, typer.Option(help="vllm, sglang or trtllm.")] = None,
    precision: Annotated[str | None, typer.Option(help="Precision of the weights.")] = None,
    own: Annotated[
        list[Path] | None,
        typer.Option("--own", metavar="FILE", help="Curves of `planner calibrate`; repeatable."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Print what can be planned: engines, precisions, degrees, KV cache, error of the fit."""
    from planner.catalogue.measured import read_measured_laws
    from planner.curves.curve import curves as find

    catalogue = _catalogue()
    for file in own or []:
        catalogue = catalogue.with_laws(read_measured_laws(file, catalogue))
    found = find(catalogue, model, accelerator, engine, precision)
    if not found:
        raise InputError(_nothing(catalogue, model, accelerator))
    rows = [_of_curve(curve) for curve in found]
    header = ("id", "engine_version", "kv_tokens_per_rank", "error_mean", "error_p95")
    shown = rows if as_json else [{name: _short(row[name]) for name in header} for row in rows]
    _print(tuple(shown[0]), (row.values() for row in shown), as_json)
    for remark in dict.fromkeys(f"{c.source}: {c.caveat}. {c.attribution}." for c in found):
        note(remark)


def _catalogue() -> Catalogue:
    from planner.catalogue import Catalogue

    return Catalogue()


def _list_accelerators(catalogue: Catalogue, as_json: bool) -> None:
    rows = []
    for name in catalogue.accelerator_ids():
        a = catalogue.accelerator(name)
        rates = [None if x is None else round(x / 1e12, 1) for x in (a.bf16, a.fp8, a.fp4)]
        memory = (round(a.memory / 2**30, 1), a.memory_basis, round(a.memory_bandwidth / 1e9))
        rows.append((a.id, a.vendor, *memory, *rates, a.scaleup_domain, a.board_power))
    header = ("id", "vendor", "memory_gib", "basis", "gb_per_s", "bf16_tflops", "fp8_tflops")
    _print((*header, "fp4_tflops", "scaleup_domain", "board_w"), rows, as_json)


def _list_nodes(catalogue: Catalogue, as_json: bool) -> None:
    rows = [
        (n.id, n.provider, n.accelerator, n.n_accelerators, n.scaleup_domain)
        for n in catalogue.nodes()
    ]
    _print(("id", "provider", "accelerator", "n_accelerators", "scaleup_domain"), rows, as_json)


def _list_llms(catalogue: Catalogue, as_json: bool) -> None:
    rows = []
    for name in catalogue.llm_ids():
        m = catalogue.llm(name)
        facts = (m.family, m.params_total_b, m.params_active_b, m.weights_precision)
        rows.append((m.id, *facts, m.max_context, m.kv))
    header = ("id", "family", "params_b", "active_b", "precision", "max_context", "kv")
    _print(header, rows, as_json)


def _list_laws(catalogue: Catalogue, as_json: bool) -> None:
    groups: dict[tuple[str, ...], list[str]] = {}
    for r in catalogue.laws():
        key = (r.model, r.precision, r.accelerator, r.engine, r.engine_version)
        groups.setdefault(key, []).append(r.degrees)
    rows = [(*key, ", ".join(degrees)) for key, degrees in groups.items()]
    _print(("model", "precision", "accelerator", "engine", "version", "degrees"), rows, as_json)


def _list_sellers(catalogue: Catalogue, as_json: bool) -> None:
    groups: dict[tuple[str, str], list[float]] = {}
    for p in catalogue.prices():
        groups.setdefault((p.accelerator, p.term), []).append(p.usd_per_accelerator_hour)
    rows = [(*key, len(usd), min(usd), max(usd)) for key, usd in sorted(groups.items())]
    header = ("accelerator", "term", "points", "least_usd_per_hour", "most_usd_per_hour")
    _print(header, rows, as_json)


def _list_lengths(catalogue: Catalogue, as_json: bool) -> None:
    rows = [tuple(_of_lengths(catalogue, name).values()) for name in catalogue.length_ids()]
    _print(("id", "requests", "mean_prompt_tokens", "mean_output_tokens"), rows, as_json)


def _of_lengths(catalogue: Catalogue, name: str) -> dict[str, object]:
    h = catalogue.length_histogram(name)
    return {
        "id": name,
        "requests": h.requests,
        "mean_prompt_tokens": round(h.mean_prompt_tokens, 1),
        "mean_output_tokens": round(h.mean_output_tokens, 1),
    }


def _of_curve(curve: Curve) -> dict[str, Any]:
    error = curve.relative_error
    return {
        "id": curve.id,
        "model": curve.llm.id,
        "precision": curve.precision,
        "kv_dtype": curve.kv_dtype,
        "accelerator": curve.accelerator.id,
        "engine": curve.engine,
        "engine_version": curve.engine_version,
        "tp_degree": curve.layout.tp_degree,
        "ep_degree": curve.layout.ep_degree,
        "dp_degree": curve.layout.dp_degree,
        "accelerators": curve.accelerators,
        "kv_tokens_per_rank": curve.room().kv_tokens,
        "memory_utilisation": curve.memory_utilisation,
        "max_tokens_per_step": curve.max_tokens_per_step,
        "max_context": curve.max_context,
        "error_mean": error.mean,
        "error_p95": error.p95,
        "error_prefill": error.prefill,
        "error_decode": error.decode,
        "error_mixed": error.mixed,
        "replaces": curve.row.origin.replaces if curve.row.origin else None,
        "source": curve.source,
        "caveat": curve.caveat,
        "attribution": curve.attribution,
    }


def _nothing(catalogue: Catalogue, model: str, accelerator: str | None) -> str:
    """Say what there is instead of the curves that were asked for."""
    name = catalogue.llm(model).family_id
    rows = catalogue.laws(name)
    if not rows:
        known = ", ".join(sorted({row.model for row in catalogue.laws()}))
        return f"no step law of {name}; there are those of {known}"
    on = {row.accelerator for row in rows}
    device = None if accelerator is None else catalogue.accelerator(accelerator).id
    if device is not None and device not in on:
        return f"no step law of {name} on {device}; there are those on {', '.join(sorted(on))}"
    pairs = sorted({f"{r.engine} {r.precision}" for r in rows if device in (None, r.accelerator)})
    return f"no such step law of {name}; there are {', '.join(pairs)}"


LABELS = {
    "usd_per_accelerator_hour": "USD/h",
    "n_accelerators": "sold by",
    "least_usd_per_hour": "least USD/h",
    "most_usd_per_hour": "most USD/h",
    "memory_gib": "GiB",
    "gb_per_s": "GB/s",
    "bf16_tflops": "bf16",
    "fp8_tflops": "fp8",
    "fp4_tflops": "fp4",
    "scaleup_domain": "link",
    "board_w": "W",
    "max_context": "context",
}
"""Short words for columns of tables; JSON has the full names."""


def _print(header: Sequence[str], rows: Iterable[Iterable[object]], as_json: bool) -> None:
    """Print rows as a table that fits 100 columns, or as a list of JSON objects."""
    cells = [list(row) for row in rows]
    if as_json:
        objects = [dict(zip(header, row, strict=True)) for row in cells]
        emit_json(objects)
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for i, name in enumerate(header):
        numeric = all(row[i] is None or isinstance(row[i], int | float) for row in cells)
        label = LABELS.get(name, name.replace("_", " "))
        table.add_column(label, justify="right" if numeric else "left", no_wrap=i == 0)
    for row in cells:
        table.add_row(*("-" if x is None or x == "" else _cell(x) for x in row))
    emit_tables(table)


def _short(value: object) -> object:
    """Round an error to three digits, which is all that it has."""
    return float(f"{value:.3g}") if isinstance(value, float) else value


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value).removesuffix(".0")
