"""What a usual call takes, by calls of other sizes."""

from __future__ import annotations

import random

import pytest

from torch_outboard.inductor.ways.work import mean_work, seconds_at


def test_calls_of_the_same_work():
    """Whatever the machine has to do besides makes calls longer, never shorter."""
    assert seconds_at(3.0, [(3.0, 0.5), (3.0, 0.4), (3.0, 0.9)]) == 0.4


def test_calls_of_one_other_size():
    assert seconds_at(6.0, [(3.0, 0.5), (3.0, 0.4)]) == pytest.approx(0.8)


def test_calls_of_several_sizes():
    samples = [(work, 0.1 + 0.02 * work) for work in (1.0, 7.0, 3.0, 5.0)]
    assert seconds_at(4.0, samples) == pytest.approx(0.18)
    assert mean_work(samples) == 4.0


def test_calls_beside_other_work_do_not_count():
    chance = random.Random(0)
    works = [chance.uniform(1, 9) for _ in range(15)]
    samples = [(w, 0.1 + 0.02 * w + (1.0 if i % 5 == 2 else 0.0)) for i, w in enumerate(works)]
    assert seconds_at(4.0, samples) == pytest.approx(0.18, rel=0.05)
