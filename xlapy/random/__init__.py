"""Random numbers from explicit keys.

A key is an array ``u32[2]``. The same key gives the same bits on every backend, under `compile`, in `vmap` and eagerly,
for they are computed with plain integer operations. There is no hidden state: draw from a key once, and derive others
with `split` or `fold_in`.

The algorithm is threefry-2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011), a
bijection E(key, c0, c1) of pairs of 32-bit words for each key. What is drawn from a key ``k``:

- the stream of words: words ``2j`` and ``2j+1`` are ``E(k, j mod 2**32, j div 2**32)``, so that a shorter draw is the
  beginning of a longer one;
- `split`: the keys are ``E(k, i, 2**31)``;
- `fold_in`: ``E(k, data, 2**31 + 1)``.

The second words differ, so keys derived from a key have nothing in common with numbers drawn from it.
"""

from xlapy.random.distributions import bernoulli as bernoulli
from xlapy.random.distributions import exponential as exponential
from xlapy.random.distributions import gumbel as gumbel
from xlapy.random.distributions import normal as normal
from xlapy.random.distributions import truncated_normal as truncated_normal
from xlapy.random.distributions import uniform as uniform
from xlapy.random.integers import randint as randint
from xlapy.random.keys import bits as bits
from xlapy.random.keys import fold_in as fold_in
from xlapy.random.keys import key as key
from xlapy.random.keys import split as split
from xlapy.random.picks import categorical as categorical
from xlapy.random.picks import choice as choice
from xlapy.random.picks import permutation as permutation
