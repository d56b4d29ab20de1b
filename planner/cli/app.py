"""The verbs, and what happens to an error, an interrupt and a closed pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import typer
from typer.core import TyperGroup

from planner.cli.calibrate import calibrate
from planner.cli.capacity import capacity
from planner.cli.catalogue import app as catalogue
from planner.cli.check import check
from planner.cli.compare import compare
from planner.cli.confirm import confirm
from planner.cli.diagnose import diagnose
from planner.cli.diff import diff
from planner.cli.explain import explain
from planner.cli.export import export
from planner.cli.measurements import inspect
from planner.cli.new import new
from planner.cli.output import finish, note
from planner.cli.plan import plan
from planner.cli.report import report
from planner.cli.schema import schema
from planner.cli.simulate import simulate
from planner.cli.validate import validate
from planner.cli.whatif import app as whatif
from planner.cli.workload import workload
from planner.errors import LimitReachedError, PlannerError

if TYPE_CHECKING:
    from types import TracebackType


ABORTED: Final = 130
"""What typer makes of an interrupt that comes before or after a verb."""


class Verbs(TyperGroup):
    """Turns what a verb returns or raises into the exit code of the process."""

    def invoke(self, ctx: Any) -> Any:
        """Run the verb; a verb returns its exit code, or ``None`` for 0."""
        try:
            code = super().invoke(ctx)
        except PlannerError as error:
            note(str(error))
            code = error.exit_code
        except KeyboardInterrupt:
            note("interrupted")
            code = LimitReachedError.exit_code
        raise typer.Exit(code if isinstance(code, int) else 0)


app = typer.Typer(
    cls=Verbs,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help=(
        "Plan LLM inference fleets: the most requests per dollar that meet both their deadlines."
    ),
    epilog=(
        "Exit codes: 0 done, 1 internal error, 2 input is wrong, 3 infeasible, "
        "4 a limit or an interrupt ended the work, 5 a promise is broken."
    ),
)
VERBS = (
    new,
    schema,
    check,
    plan,
    explain,
    compare,
    diff,
    simulate,
    capacity,
    diagnose,
    confirm,
    report,
    export,
    workload,
    inspect,
    calibrate,
    validate,
)
for _verb in VERBS:
    app.command()(_verb)
app.add_typer(whatif, name="whatif")
app.add_typer(catalogue, name="catalogue")


@app.callback(invoke_without_command=True)
def _version(
    version: bool = typer.Option(False, "--version", help="Print the version and leave."),
) -> None:
    if version:
        from planner.cli.output import emit
        from planner.data import version as current

        emit(f"planner {current()}\n")
        raise typer.Exit(0)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    if os.environ.get("PLANNER_DEBUG") != "1":
        sys.excepthook = _one_line
    words = list(sys.argv[1:] if arguments is None else arguments)
    command = typer.main.get_command(app)
    try:
        command.main(words, prog_name="planner")
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):
            return finish(0)
        if error.code == ABORTED:
            raise KeyboardInterrupt from error
        return finish(error.code if isinstance(error.code, int) else 1)
    return finish(0)


def _one_line(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Tell a mistake of ours in one line; installed as ``sys.excepthook``, exit code 1."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f" at {_module(trace)}:{trace.tb_lineno}" if trace is not None else ""
    what = " ".join(str(error).split()) or "no message"
    note(
        f"planner: internal error: {kind.__name__}: {what}{place}. This is a bug: please report "
        "it with this line, the command and its files; PLANNER_DEBUG=1 shows the full trace."
    )


def _module(trace: TracebackType) -> str:
    return str(trace.tb_frame.f_globals.get("__name__", "?"))
