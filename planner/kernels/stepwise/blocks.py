"""The KV blocks of one engine: counted, or with names when prefixes are cached."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable

    from planner.kernels.stepwise.request import Request

UNLIMITED = 1 << 62
"""Free blocks of a pool without a limit."""


def ceil_div(a: int, b: int) -> int:
    """Return ``a / b`` rounded up."""
    return -(-a // b)


class BlockPool:
    """Free blocks, and how many each request holds.

    Law: ``free`` plus the blocks of all requests is constant, and ``free >= 0``.
    """

    def __init__(self, block_size: int, usable: int | None) -> None:
        self.block_size = block_size
        self.usable = UNLIMITED if usable is None else usable
        self.free = self.usable

    @property
    def held(self) -> int:
        """Blocks that some request holds; a shared block counts once."""
        return self.usable - self.free

    def blocks_of(self, tokens: int) -> int:
        """Return the blocks that ``tokens`` tokens fill."""
        return ceil_div(tokens, self.block_size)

    def lookup(self, request: Request) -> list[int]:
        """Return the cached blocks that a request could take over: none here."""
        del request
        return []

    def needed(self, request: Request, tokens: int, hits: list[int]) -> int:
        """Return the free blocks it costs that ``request`` holds ``tokens`` tokens."""
        del hits
        return max(0, self.blocks_of(tokens) - request.blocks)

    def take(self, request: Request, tokens: int, hits: list[int]) -> None:
        """Give ``request`` the blocks for ``tokens`` tokens; they must be free."""
        need = self.needed(request, tokens, hits)
        self.free -= need
        request.blocks += need

    def release(self, request: Request) -> None:
        """Take back all blocks of ``request``."""
        self.free += request.blocks
        request.blocks = 0

    def name(self, request: Request, tokens: int) -> None:
        """Note that the first ``tokens`` tokens of ``request`` are settled: nothing here."""


class CachingPool(BlockPool):
    """A pool whose full blocks can be taken over by requests of the same prefix.

    A freed block keeps its contents until it is given to someone else. Free blocks stand in a
    queue: given out from its head, freed to its tail, a request's last block first. Two
    blocks may bear one name (a prompt's last block is computed again); the older one is hit.
    """

    def __init__(self, block_size: int, usable: int | None) -> None:
        super().__init__(block_size, usable)
        self._idle: OrderedDict[int, None] = OrderedDict()  # free blocks that were used before
        self._fresh = 0  # blocks from here on were never used; they head the queue
        self._users: dict[int, int] = {}
        self._name_of: dict[int, Hashable] = {}
        self._bearers: dict[Hashable, dict[int, None]] = {}

    def lookup(self, request: Request) -> list[int]:
        """Return the longest cached run of leading full blocks, one token short of all."""
        hits: list[int] = []
        for index in range((request.tokens - 1) // self.block_size):
            bearers = self._bearers.get(request.block_name(index, self.block_size))
            if not bearers:
                break
            hits.append(next(iter(bearers)))
        return hits

    def needed(self, request: Request, tokens: int, hits: list[int]) -> int:
        """Return the free blocks it costs, unused ``hits`` included: they leave the queue."""
        idle_hits = sum(self._users.get(block, 0) == 0 for block in hits)
        return max(0, self.blocks_of(tokens) - request.blocks - len(hits)) + idle_hits

    def take(self, request: Request, tokens: int, hits: list[int]) -> None:
        """Give ``request`` its hits, and new blocks for the rest of ``tokens`` tokens."""
        for block in hits:
            if self._users.get(block, 0) == 0:
                del self._idle[block]
                self.free -= 1
            self._users[block] = self._users.get(block, 0) + 1
        request.block_ids += hits
        request.named += len(hits)
        for _ in range(self.blocks_of(tokens) - len(request.block_ids)):
            block = self._new_block()
            self._users[block] = 1
            request.block_ids.append(block)
        request.blocks = len(request.block_ids)

    def release(self, request: Request) -> None:
        """Take back its blocks, last first; they keep their contents for now."""
        for block in reversed(request.block_ids):
            self._users[block] -= 1
            if self._users[block] == 0:
                self._idle[block] = None
                self.free += 1
        request.block_ids = []
        request.blocks = 0
        request.named = 0

    def name(self, request: Request, tokens: int) -> None:
        """Make the full blocks among the first ``tokens`` tokens of ``request`` hittable."""
        for index in range(request.named, tokens // self.block_size):
            block = request.block_ids[index]
            name = request.block_name(index, self.block_size)
            self._name_of[block] = name
            self._bearers.setdefault(name, {})[block] = None
            request.named = index + 1

    def _new_block(self) -> int:
        self.free -= 1
        if self._fresh < self.usable:
            self._fresh += 1
            return self._fresh - 1
        block, _ = self._idle.popitem(last=False)
        name = self._name_of.pop(block, None)
        if name is not None:
            bearers = self._bearers[name]
            del bearers[block]
            if not bearers:
                del self._bearers[name]
        return block
