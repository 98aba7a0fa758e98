"""No harness: one that holds, fails, ends its process or never answers, by the seed, for the tests of the runner."""

import os
import time


def check(seed):
    assert seed % 4 != 1, f"seed {seed} was to fail"
    if seed % 4 == 2:
        os._exit(7)
    if seed % 4 == 3:
        time.sleep(1000)
    return "held"
