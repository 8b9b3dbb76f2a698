"""Dense operations of a model on the GPU, in Triton: bits that depend neither on how many rows are computed nor on which.

linear        projections            norm         RMS norm, gated RMS norm
elementwise   SwiGLU, residual sum   convolution  short convolution and its windows
attention     causal, over pages     launch       what makes a launch independent of its shape

The same maths as the lab's layers on the CPU, not the same bits. Values are fp32 containers on the grid of the activation
precision; a result is rounded once, in the kernel. Row invariance by construction: block sizes follow from the widths of
the weights alone, every sum is made inside one program in an order that is compiled in (no split sums, no atomics, no
autotuning), no compiled kernel depends on the number of rows, and rows share a program only where each row's arithmetic is
its own. Importing this needs no Triton; calling it does.
"""

from .attention import QueryBlocks, attend, query_blocks
from .convolution import conv_windows, short_convolution, token_rows
from .elementwise import add_rounded, swiglu
from .linear import linear, prepare_weight
from .norm import gated_rms_norm, rms_norm

__all__ = [
    "QueryBlocks",
    "add_rounded",
    "attend",
    "conv_windows",
    "gated_rms_norm",
    "linear",
    "prepare_weight",
    "query_blocks",
    "rms_norm",
    "short_convolution",
    "swiglu",
    "token_rows",
]
