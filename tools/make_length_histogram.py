"""Make a joint histogram of prompt and output lengths from a request trace.

    python tools/make_length_histogram.py NAME TRACES_FOLDER [--into models/lengths]

Bins grow by 8 %: [e, e') with e' = max(e + 1, round(1.08 e)), so lengths below 20 tokens or so
have a bin of their own. A bin stands for its midpoint (low + high) / 2.
"""

from __future__ import annotations

import argparse
import bisect
import sys
from collections import Counter
from pathlib import Path
from typing import Final, NamedTuple

from facts_text import read_rows, write_csv, write_yaml

GROWTH: Final = 1.08
LONGEST: Final = 1 << 20


class Trace(NamedTuple):
    """A trace file and what to say of it."""

    file: str
    what: str


TRACES: Final = {
    "azure-conversation-2023": Trace(
        "AzureLLMInferenceTrace_conv.csv", "conversation service, 2023-11-16 18:15-19:14 UTC"
    ),
    "azure-code-2023": Trace(
        "AzureLLMInferenceTrace_code.csv", "coding service, 2023-11-16 18:17-19:14 UTC"
    ),
}


def bin_starts() -> list[int]:
    """Return the first length of every bin, ascending from 1."""
    starts = [1]
    while starts[-1] < LONGEST:
        starts.append(max(starts[-1] + 1, round(starts[-1] * GROWTH)))
    return starts


def write_histogram(name: str, traces: Path, into: Path) -> None:
    """Write ``<name>.csv`` (one row a cell that holds requests) and ``<name>.yaml``."""
    starts = bin_starts()

    def place(length: str) -> tuple[int, int]:
        i = bisect.bisect_right(starts, int(length)) - 1
        return starts[i], starts[i + 1] - 1

    trace = TRACES[name]
    requests = read_rows(traces / trace.file)
    cells = Counter((place(r["ContextTokens"]), place(r["GeneratedTokens"])) for r in requests)
    rows = [(*prompt, *output, count) for (prompt, output), count in sorted(cells.items())]
    header = ("prompt_low", "prompt_high", "output_low", "output_high", "count")
    write_csv(into / f"{name}.csv", header, rows)
    n = len(requests)
    facts: dict[str, object] = {
        "format_version": "1.0",
        "id": name,
        "what": f"prompt and output lengths in tokens of {n} requests: {trace.what}",
        "convention": (
            "bounds are inclusive; a bin stands for its midpoint (low + high) / 2; bins grow by "
            "8 % and are one token wide at small lengths"
        ),
        "requests": n,
        "trace_mean_prompt_tokens": round(sum(int(r["ContextTokens"]) for r in requests) / n, 4),
        "trace_mean_output_tokens": round(sum(int(r["GeneratedTokens"]) for r in requests) / n, 4),
        "source": f"Azure/AzurePublicDataset @b469a11 data/{trace.file}",
        "licence": "CC-BY-4.0",
        "attribution": (
            "Microsoft; Patel et al., 'Splitwise: Efficient generative LLM inference using phase "
            "splitting', ISCA 2024. Changed: binned, arrival times dropped."
        ),
    }
    write_yaml(into / f"{name}.yaml", facts)


def main() -> int:
    """Read the arguments and write one histogram."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=sorted(TRACES))
    parser.add_argument("traces", type=Path)
    parser.add_argument("--into", default=Path(__file__).parents[1] / "models/lengths", type=Path)
    arguments = parser.parse_args()
    write_histogram(arguments.name, arguments.traces, arguments.into)
    return 0


if __name__ == "__main__":
    sys.exit(main())
