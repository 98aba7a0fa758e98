"""Drivers: whoever feeds the rows, in whatever order of events, the model is that of the rows that it has.

- a streamed fit that is broken off at any write of its journal or at any batch, once or several times, and begun again,
  ends with the same bits; with another source, order or transformer it is refused (``_kills``);
- an online model after any sequence of blocks, weights, forgetting, unlearning, merging, new landmarks, new classes,
  copies and files predicts what a refit from the kept rows does (``_sequences``);
- Dask on rows that repeat draws the sample of a stream and gives its model, for any partitions (``_others``);
- threads that read beside one that learns see states between blocks only; processes that are forked or spawned beside
  working threads go on by themselves (``_others``).
"""

import numpy as np

from ._kills import other_source, stream_broken_off
from ._others import dask_on_copies, forked_beside_threads, readers_beside_a_learner, spawned
from ._sequences import online_sequence

#: The properties, and how often each is drawn: starting a process takes seconds.
CHECKS = {
    stream_broken_off: 30,
    other_source: 8,
    online_sequence: 40,
    dask_on_copies: 12,
    readers_beside_a_learner: 10,
    forked_beside_threads: 4,
    spawned: 1,
}


def check(seed: int) -> str:
    """One case of one driver."""
    rng = np.random.default_rng(seed)
    share = np.array(list(CHECKS.values()), dtype=float)
    property_ = list(CHECKS)[rng.choice(len(share), p=share / share.sum())]
    return f"{property_.__name__}: {property_(rng)}"
