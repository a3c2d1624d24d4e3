"""Places of the nodes of a graph in the plane: grids, and otherwise stress majorisation.

Stress majorisation minimises Σ (|pᵢ − pⱼ| − dᵢⱼ)² / dᵢⱼ² over pairs of nodes with dᵢⱼ edges between them
(Gansner, Koren and North, 2004). Each step solves a linear system with the same matrix and does not increase
the sum. The start is fixed, so the same graph gives the same picture.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

_STEPS = 200
_TOLERANCE = 1e-4


def grid_places(count: int, edges: Sequence[tuple[int, ...]]) -> NDArray[np.float64] | None:
    """The places of a grid whose nodes are numbered row by row; `None` for any other graph.

    >>> grid_places(4, [(0, 1), (0, 2), (1, 3), (2, 3)]).tolist()
    [[0.0, 0.0], [1.0, 0.0], [0.0, -1.0], [1.0, -1.0]]
    >>> grid_places(3, [(0, 1), (1, 2), (0, 2)]) is None
    True
    """
    given = set(edges)
    columns = max((j - i for i, j in given), default=0)
    if columns < 2 or count % columns:
        return None
    rows = count // columns
    across = {(v, v + 1) for v in range(count - 1) if (v + 1) % columns}
    down = {(v, v + columns) for v in range(count - columns)}
    if rows < 2 or given != across | down:
        return None
    numbers = np.arange(count)
    return np.stack([numbers % columns, -(numbers // columns)], axis=1).astype(np.float64)


def components(count: int, edges: Iterable[tuple[int, int]]) -> list[list[int]]:
    """The connected parts of a graph, the largest first.

    >>> components(4, [(0, 2), (2, 3)])
    [[0, 2, 3], [1]]
    """
    neighbours: list[list[int]] = [[] for _ in range(count)]
    for i, j in edges:
        neighbours[i].append(j)
        neighbours[j].append(i)
    seen = [False] * count
    parts = []
    for start in range(count):
        if seen[start]:
            continue
        seen[start] = True
        part = [start]
        for node in part:
            fresh = [other for other in neighbours[node] if not seen[other]]
            for other in dict.fromkeys(fresh):
                seen[other] = True
                part.append(other)
        parts.append(sorted(part))
    return sorted(parts, key=len, reverse=True)


def stress_places(
    count: int, edges: Sequence[tuple[int, int]], parts: Sequence[Sequence[int]]
) -> NDArray[np.float64]:
    """Places of all nodes: each connected part by stress majorisation, the parts side by side in rows."""
    places = np.zeros((count, 2))
    boxes = []
    for part in parts:
        number = {node: k for k, node in enumerate(part)}
        own = [(number[i], number[j]) for i, j in edges if i in number]
        drawn = _majorised(_distances(len(part), own))
        drawn = drawn - drawn.min(axis=0)
        boxes.append((part, drawn, drawn.max(axis=0) + 1.0))
    area = sum(float(box[2].prod()) for box in boxes)
    limit = max([math.sqrt(1.5 * area)] + [float(box[2][0]) for box in boxes])
    x = y = height = 0.0
    for part, drawn, box in boxes:
        if x > 0 and x + box[0] > limit:
            x, y, height = 0.0, y - height, 0.0
        places[list(part)] = drawn * [1, -1] + [x, y]
        x, height = x + float(box[0]), max(height, float(box[1]))
    return places


def _distances(count: int, edges: Sequence[tuple[int, int]]) -> NDArray[np.float64]:
    """The number of edges between all pairs of nodes of a connected graph."""
    adjacent = np.zeros((count, count), dtype=bool)
    for i, j in edges:
        adjacent[i, j] = adjacent[j, i] = True
    distances = np.full((count, count), np.inf)
    np.fill_diagonal(distances, 0)
    reached = np.eye(count, dtype=bool)
    front = reached
    step = 0
    while front.any():
        step += 1
        # Sums of whole numbers below 2^24 are exact in single precision.
        front = (front.astype(np.float32) @ adjacent.astype(np.float32) > 0) & ~reached
        distances[front] = step
        reached = reached | front
    return distances


def _majorised(distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Places whose distances are close to these."""
    count = len(distances)
    if count == 1:
        return np.zeros((1, 2))
    # Classical scaling is a good start; it is unique up to signs, which are fixed here.
    centred = distances**2
    centred = centred - centred.mean(axis=0) - centred.mean(axis=1)[:, np.newaxis] + centred.mean()
    values, vectors = np.linalg.eigh(-0.5 * centred)
    places: NDArray[np.float64] = vectors[:, [-1, -2]] * np.sqrt(np.maximum(values[[-1, -2]], 1e-6))
    largest = np.abs(places).argmax(axis=0)
    places = places * np.where(places[largest, [0, 1]] < 0, -1.0, 1.0)
    # Nodes at the same place would never part: the angles of a spiral separate them.
    turn = np.arange(count) * math.pi * (3 - math.sqrt(5))
    places = places + 0.05 * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    with np.errstate(divide="ignore"):
        weights = np.where(distances > 0, distances**-2.0, 0.0)
    laplacian = np.diag(weights.sum(axis=1)) - weights
    inverse = np.linalg.pinv(laplacian)
    before = math.inf
    for _ in range(_STEPS):
        gaps = np.linalg.norm(places[:, np.newaxis] - places, axis=2)
        stress = float((weights * (gaps - distances) ** 2).sum())
        if before - stress <= _TOLERANCE * before and math.isfinite(before):
            break
        before = stress
        with np.errstate(divide="ignore", invalid="ignore"):
            pull = np.where(gaps > 0, weights * distances / gaps, 0.0)
        places = inverse @ (np.diag(pull.sum(axis=1)) - pull) @ places
    return places
