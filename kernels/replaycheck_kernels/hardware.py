"""Errors of the functions that Triton compiles to on an NVIDIA GPU: the one place of these constants.

Source: PTX ISA 8.x, floating-point instructions. ``lg2.approx`` has an absolute error of up to 2^-22 between 0.5 and 2 and
a relative one elsewhere; ``ex2.approx.ftz`` a relative one of up to 2^-22, and it returns 0 in place of a subnormal number.
"""

from __future__ import annotations

from math import log

EXP = 2.0**-22
"""Largest relative error of e^x and 2^x."""

LN = log(2) * 2.0**-22
"""Largest absolute error of ln x between 0.5 and 2: that of lg2.approx in natural units. Beyond, relative to lg2 x."""

ONE_PLUS = 2.0**-24
"""Largest error of the fp32 sum 1 + e^y for e^y ≤ 1, however small e^y is: half a unit at 1."""

SMALLEST_NORMAL = 2.0**-126
