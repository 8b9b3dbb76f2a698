"""Our kernels in Triton: the chunk form and the recurrent form on CUDA, over pools of states that they update in place.

elements    decay, beta, norms and roundings as the emulator computes them
diagonal    diagonal blocks of a chunk and their inverses; norms and decays (kernel 1 of the chunk form)
scores      blocks beside the diagonal, decayed q and k (kernel 2)
operands    the inverse, U and W (kernel 3)
heads       in place of these three where one decay a head multiplies finished products (``sglang-gdn``)
states      the pass over the states, with o and snapshots (kernel 4)
recurrence  token by token: decode and verify
tables      which tokens, slots and snapshot rows a call names, as tensors
launch      the calls with their block sizes
kernels     both forms behind the contract

**Prefix and batch invariance.** Whatever a sequence's token gets depends on its earlier tokens alone, bit for bit:
1. Programs belong to one chunk, or one sequence, and one head; they share nothing, and sums never cross them.
2. Block sizes, warps and stages are constants of (K, V, recipe); nothing is tuned at run time, nothing asks how many
   sequences or tokens a call has.
3. Within a chunk, values of later tokens are left out by selection, or multiplied by exact zeros, which add nothing
   (inputs must be finite); references of exponents are never later than the row that uses them. Tokens that don't exist
   are zeros with decay 1, so a partial chunk runs the same program on the same numbers as a full one.
4. The chunk grid counts from the extend's start, and the state crosses chunks in fp32, so going on from a snapshot at a
   chunk's start is the same as never having stopped.
5. In kernels that touch a pool, compilers may not fuse a product and a sum where the source doesn't, so that their
   variants (pool dtypes) compute alike. The others have one program each: tensors begin at multiples of 16 bytes.
Triton is imported when a kernel is first called; without it the rest of the package works.
"""
