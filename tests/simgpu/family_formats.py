"""Cases for conversions between formats of floating-point numbers, with ties and edges of the narrower one."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from exact_floats import F64, INF, NAN, read, write
from family_machine import ALL, LANES, Bench, R, chosen, group
from family_memory import SOME
from family_scalar import FORMS, modified, put


def numbers_near(b, form, narrower):
    """32 words: ties and edges of a narrower format, and what is special."""
    unit = Fraction(2) ** (narrower.lowest - narrower.precision + 1)
    top = Fraction(2) ** narrower.highest
    step = Fraction(2) ** (1 - narrower.precision)
    edges = [Fraction(0), unit / 2, unit / 2 + unit / 64, 3 * unit / 2, unit, top * 2 - top * step / 2,
             top * 2 - top * step, top * 2, 1 + step / 2, 1 + 3 * step / 2, 1 + step / 2 + step / 128,
             Fraction(2) ** narrower.lowest,
             Fraction(2) ** narrower.lowest - unit / 2, Fraction(3, 7)]  # fmt: skip
    words = [write(value, 0, form) for value in edges] + [form.infinity, form.infinity + 1, form.nan]
    words += [int(word) for word in b.random.integers(0, 1 << min(form.bits, 63), 32 - len(words))]
    signs = b.random.integers(0, 2, 32)
    return [word | int(sign) << form.bits - 1 for word, sign in zip(words, signs)]


@group
def between_formats():
    made = []
    for target in (1, 2, 3):
        for source in range(4):
            if source == target:
                continue
            for seed, mods in enumerate((0, 9, 8, 1)):
                b, form, into = Bench(seed=seed), FORMS[source], FORMS[target]
                words = numbers_near(b, form, into if into.bits < form.bits else form)
                shift = 16 * (seed & 1) if form.bits == 16 else 0
                if form is F64:
                    b.pairs(R(0), np.array(words, np.uint64).view(np.int64))
                else:
                    noise = b.random.integers(0, 1 << 16, 32) << (16 - shift) if form.bits == 16 else 0
                    b.rows(R(0))[0] = (np.array(words, np.int64) << shift | noise) & ALL

                def then(b=b, words=words, form=form, into=into, mods=mods):
                    for lane in LANES[chosen(SOME)]:
                        sign, value = read(modified(words[lane], mods, 0, form), form)
                        if value == NAN:
                            word = 0x7FF8 << 48 if into is F64 else 0x7FFF
                        else:
                            top = sign << into.bits - 1
                            word = top | into.infinity if value == INF else write(value, sign, into)
                        put(b, lane, word, 2 if into is F64 else 1)

                given = {"D": R(20), "A": R(0), "B": R(4), "C": R(8), "MODS": mods}
                made.append(b.case("F2F_ANY", then, SOME, I0=target, I1=source, I2=shift, **given))
    return made
