"""The facts of models/: accelerators, models, step laws, prices, lengths."""

from planner.catalogue.accelerator import Accelerator
from planner.catalogue.llm import Llm
from planner.catalogue.load import Catalogue
from planner.catalogue.node_kind import NodeKind
from planner.catalogue.tables import (
    LengthCell,
    LengthHistogram,
    PricePoint,
    StepLawRow,
    StepLawSource,
)

__all__ = [
    "Accelerator",
    "Catalogue",
    "LengthCell",
    "LengthHistogram",
    "Llm",
    "Node",
    "NodeKind",
    "PricePoint",
    "StepLawRow",
    "StepLawSource",
]
