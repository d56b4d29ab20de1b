"""From a plan to what creates its fleet: engine settings and manifests, and back for a check."""

from planner.exports.options import ExportOptions, read_options
from planner.exports.targets import TARGETS, check, export

__all__ = ["TARGETS", "ExportOptions", "check", "export", "read_options"]
