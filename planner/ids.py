"""One type per kind of name, so that a pool id cannot stand where a model id belongs."""

from __future__ import annotations

from typing import Annotated, Final, NewType

from pydantic import StringConstraints

SLUG: Final = StringConstraints(pattern=r"^[a-z0-9][a-z0-9.-]*$", max_length=64)
"""What an id may look like. No underscore: PuLP writes ``-`` as ``_``, and names must not meet."""

AcceleratorId = NewType("AcceleratorId", str)
ModelId = NewType("ModelId", str)
WorkloadId = NewType("WorkloadId", str)
TemplateId = NewType("TemplateId", str)

Slug = Annotated[str, SLUG]
