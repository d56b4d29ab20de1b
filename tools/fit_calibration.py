"""Makes models/calibration from a table of closed-loop means: constants, bands, levels.

Usage: python tools/fit_calibration.py CLOSED_LOOP_MEANS.csv [models/calibration] [--bands-only]

With --bands-only the constants stay as they are: for a change of the kinds of effects.

The measured rows are not part of this repository and do not enter the files: what is written
are constants of engines, effects of kinships and their values at reference loads.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import yaml

from planner.calibration.bands import fit_bands
from planner.calibration.fit import Fitter, fit_engines, fit_hand_off, fit_roofline, usable
from planner.calibration.levels import condense, write_levels
from planner.calibration.parameters import Parameters, read_parameters
from planner.calibration.predict import Predictor
from planner.calibration.silicon import read_closed_loop_means
from planner.catalogue import Catalogue
from planner.curves.transfer import StepLawLibrary

FACTS: Final = {
    "what": (
        "constants of engine hosts, efficiencies of the roofline, and how far residuals of kindred "
        "systems agree; levels.csv holds the pooled residuals at reference loads"
    ),
    "learned_from": (
        "mean TTFT and TPOT of 1,768 closed-loop runs without speculative decoding (table "
        "silicon_sample.csv of ai-dynamo/aiconfigurator, commit 095f58a, cleaned); its rows are "
        "exports of the public InferenceX (formerly InferenceMAX) results and measurements by "
        "NVIDIA"
    ),
    "source": "ai-dynamo/aiconfigurator, InferenceX (SemiAnalysis)",
    "licence": "Apache-2.0",
    "attribution": "Copyright NVIDIA CORPORATION & AFFILIATES; InferenceX results",
}


def main(rows: Path, folder: Path, *, bands_only: bool) -> None:
    """Fit everything in its order and write it."""
    catalogue = Catalogue()
    library = StepLawLibrary(catalogue)
    points = read_closed_loop_means(rows, catalogue).points
    fitter = Fitter(catalogue, library, usable(points))
    found = read_parameters(folder)
    if not bands_only:
        found = fitted(fitter, found)
    predictor = Predictor(catalogue, found, library)
    found = fit_bands(predictor, predictor.physics(points))
    folder.mkdir(parents=True, exist_ok=True)
    write_parameters(folder / "calibration.yaml", found)
    predictor = Predictor(catalogue, found, library)
    write_levels(folder / "levels.csv", condense(predictor, predictor.physics(points)))


def fitted(fitter: Fitter, found: Parameters) -> Parameters:
    """Fit all constants in their order."""
    found = fit_roofline(fitter, found)
    print("roofline", found.roofline, flush=True)
    found = fit_engines(fitter, found)
    print("engines", found.engines, flush=True)
    found = fit_hand_off(fitter, found)
    print("hand-off", found.hand_off, flush=True)
    return found


def write_parameters(path: Path, found: Parameters) -> None:
    """Write the parameters with four significant digits."""
    data = rounded(found.model_dump(mode="json"))
    assert isinstance(data, dict)
    data.update(FACTS)
    text = yaml.safe_dump(data, sort_keys=False, width=100, allow_unicode=True)
    path.write_text(text, encoding="utf-8")


def rounded(value: Any) -> Any:
    """Return plain data with floats at four significant digits."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    return [rounded(v) for v in value] if isinstance(value, list) else value


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    target = Path(words[1]) if len(words) > 1 else Path("models/calibration")
    main(Path(words[0]), target, bands_only="--bands-only" in sys.argv)
