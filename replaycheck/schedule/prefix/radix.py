"""The radix tree of token prefixes with states at some nodes (SGLang's shape).

An edge is a run of tokens. Splitting one leaves the state with the lower node: the new node above it owns none, and a hit
that ends there is cut back to the last node that does. A leaf always owns a state: when it loses it, it goes, and so do
the stateless nodes above it that become leaves.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from replaycheck.schedule.steps import Checkpoint


@dataclass
class Node:
    """``edge``: numbers of the prefixes from the parent's depth + 1 to ``depth``, one a token. Children by first page."""

    depth: int
    edge: tuple[int, ...]
    parent: Node | None
    children: dict[int, Node] = field(default_factory=dict)
    state: Checkpoint | None = None


@dataclass(frozen=True)
class Match:
    """covered: tokens of the key that the tree has, in whole pages. state: the last one on the way."""

    covered: int
    state: Checkpoint | None


class RadixTree:
    """Keys are cut to multiples of ``page`` tokens."""

    def __init__(self, page: int) -> None:
        self._page = page
        self.root = Node(0, (), None)
        self._owners: dict[str, Node] = {}

    def match(self, numbers: tuple[int, ...], limit: int) -> Match:
        """Walk down the first ``limit`` tokens; an edge that matches in part is split there."""
        node = self._walk(numbers, limit)
        owner: Node | None = node
        while owner is not None and owner.state is None:
            owner = owner.parent
        return Match(node.depth, owner.state if owner else None)

    def at(self, numbers: tuple[int, ...], depth: int) -> Checkpoint | None:
        """The state of exactly the first ``depth`` tokens."""
        found = self.match(numbers, depth).state
        return found if found is not None and found.position == depth else None

    def insert(self, numbers: tuple[int, ...], checkpoint: Checkpoint) -> bool:
        """Store a state at its position. False at depth 0, where there is nothing to store, and where one is already."""
        depth = checkpoint.position
        if depth == 0 or depth % self._page:
            return False
        node = self._walk(numbers, depth)
        if node.depth < depth:
            node = self._attach(Node(depth, numbers[node.depth + 1 : depth + 1], node))
        if node.state is not None:
            return False
        node.state = checkpoint
        self._owners[checkpoint.name] = node
        return True

    def remove(self, checkpoint: Checkpoint) -> None:
        """Take a state away, and with it what of the tree no state is left below."""
        node = self._owners.pop(checkpoint.name)
        node.state = None
        while node.parent is not None and not node.children and node.state is None:
            del node.parent.children[self._key(node)]
            node = node.parent

    def _walk(self, numbers: tuple[int, ...], limit: int) -> Node:
        limit = limit // self._page * self._page
        node = self.root
        while node.depth < limit:
            child = node.children.get(numbers[node.depth + self._page])
            if child is None:
                break
            shared = self._shared(child, numbers[node.depth + 1 : limit + 1])
            if shared < len(child.edge):
                return self._split(child, shared)
            node = child
        return node

    def _shared(self, child: Node, wanted: tuple[int, ...]) -> int:
        """Tokens of an edge that are wanted, in whole pages; at least one page, which found the child."""
        same = next((i for i, (a, b) in enumerate(zip(child.edge, wanted, strict=False)) if a != b), None)
        return (min(len(child.edge), len(wanted)) if same is None else same) // self._page * self._page

    def _split(self, child: Node, tokens: int) -> Node:
        """A stateless node ``tokens`` below the child's parent, and the child below it."""
        parent = child.parent
        assert parent is not None
        middle = self._attach(Node(parent.depth + tokens, child.edge[:tokens], parent))
        child.parent, child.edge = middle, child.edge[tokens:]
        self._attach(child)
        return middle

    def _attach(self, child: Node) -> Node:
        assert child.parent is not None
        child.parent.children[self._key(child)] = child
        return child

    def _key(self, child: Node) -> int:
        """The number of the first page's last token, which names the whole page."""
        return child.edge[self._page - 1]
