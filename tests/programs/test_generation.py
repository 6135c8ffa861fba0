"""Text that a network writes word by word, with and without a cache of keys and values."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from tests.programs.comparison import as_on_cpu
from tests.programs.networks import Gpt2

pytestmark = pytest.mark.separate


def trained(run, steps: int = 10) -> Gpt2:
    """A network that has learned to count by sevens, so no two words are equally likely."""
    model = run.on_device(Gpt2())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(steps):
        first = torch.randint(0, 20, (8, 1))
        words = ((first + 7 * torch.arange(9)) % 20).to(run.device)
        optimizer.zero_grad()
        scores = model(words[:, :-1])
        functional.cross_entropy(scores.flatten(0, 1), words[:, 1:].flatten()).backward()
        optimizer.step()
    return model.eval()


def test_with_a_cache(same_as_on_cpu):
    """The cache grows by concatenation; the words are those of computing everything anew."""

    def program(run):
        model = trained(run)
        words = run.integers(0, 20, (2, 3))
        cache: dict = {}
        with torch.inference_mode():
            scores = model(words, cache)[:, -1]
            for _ in range(20):
                words = torch.cat([words, scores.argmax(-1, keepdim=True)], 1)
                scores = model(words[:, -1:], cache)[:, -1]
                anew = model(words)[:, -1]
                same = bool((scores - anew).abs().max() < 1e-4 * anew.abs().max())
                yield {
                    "words": words,
                    "scores": scores,
                    "cache": list(cache.values()),
                    "same": same,
                }

    assert all(step.values["same"] for step in same_as_on_cpu(program))


@as_on_cpu
def test_with_a_cache_of_fixed_size(run):
    """Keys and values are written in their places of memory that was reserved before."""
    width, heads, most = 16, 4, 24
    model = trained(run)
    layer = model.layers[0]
    keys, values = (
        torch.zeros(2, heads, most, width // heads, device=run.device, dtype=run.dtype)
        for _ in range(2)
    )
    word = run.integers(0, 20, (2, 1))
    places = torch.arange(most, device=run.device)
    with torch.no_grad():
        for number in range(20):
            place = torch.tensor([number]).to(run.device)
            x = model.words(word) + model.places(place)
            parts = layer["attention"].packed(layer["first"](x)).split(width, dim=2)
            query, key, value = (p.view(2, 1, heads, -1).transpose(1, 2) for p in parts)
            keys.index_copy_(2, place, key)
            values[:, :, place] = value
            mask = (places <= place)[None, None, None]
            y = functional.scaled_dot_product_attention(query, keys, values, attn_mask=mask)
            x = x + layer["attention"].out(y.transpose(1, 2).reshape(2, 1, width))
            scores = model.scores(model.last(x))
            word = scores.argmax(-1)
            yield {"scores": scores, "word": word, "keys": keys, "values": values}


@as_on_cpu
def test_several_at_a_time(run):
    """Beams: the best few continuations of all, whose caches are reordered."""
    beams = 3
    model = trained(run)
    words = run.integers(0, 20, (1, 2)).repeat(beams, 1)
    totals = run.on_device(torch.tensor([0.0, -1e9, -1e9]))
    cache: dict = {}
    with torch.no_grad():
        scores = model(words, cache)[:, -1]
        for _ in range(20):
            candidates = totals[:, None] + scores.log_softmax(-1)
            totals, chosen = candidates.flatten().topk(beams)
            beam, word = chosen // 20, chosen % 20
            words = torch.cat([words[beam], word[:, None]], 1)
            for number, kept in cache.items():
                cache[number] = tuple(part.index_select(0, beam) for part in kept)
            scores = model(words[:, -1:], cache)[:, -1]
            yield {"words": words, "totals": totals, "beam": beam}


@as_on_cpu
def test_drawn_words(run):
    """Warmth, the likeliest few, a part of all chances, penalties; numbers drawn on CPU."""
    model = trained(run)
    words = run.integers(0, 20, (2, 3))
    with torch.no_grad():
        for _ in range(20):
            scores = model(words)[:, -1] / 0.8
            used = scores.gather(1, words)
            scores = scores.scatter(1, words, torch.where(used > 0, used / 1.2, used * 1.2))
            least = scores.topk(8).values[:, -1:]
            scores = scores.masked_fill(scores < least, -torch.inf)
            ordered, order = scores.sort(descending=True)
            beyond = ordered.softmax(-1).cumsum(-1) - ordered.softmax(-1) > 0.9
            chances = ordered.masked_fill(beyond, -torch.inf).softmax(-1)
            drawn = run.on_device(torch.rand(2, 1)) < chances.cumsum(-1)
            place = drawn.long().argmax(-1, keepdim=True)
            words = torch.cat([words, order.gather(1, place)], 1)
            yield {"words": words, "chances": chances}
