# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#       jupytext_version: 1.19.6
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Explore a run
#
# Load a saved run, filter its cells, plot one trace, compare two runs, and judge again with another gate file. Nothing here
# replays anything, and no GPU is needed. Make two runs first:
#
# ```sh
# replaycheck run --out reports/mine
# replaycheck run --fault via-bf16 --out reports/other
# ```
#
# `explore.py` is the source; `jupytext --sync reports/explore.ipynb` keeps both in step.

# %% tags=["parameters"]
RUN = "mine"
OTHER = "other"
GATES = "ci"

# %%
import matplotlib.pyplot as plt

import replaycheck

run = replaycheck.load(RUN)
run.verdict

# %% [markdown]
# ## Cells
#
# A cell compares two arms. *exact* cells must have the same bits; *grid* is the noise of other cuts; *state* is what storing and
# restoring did; *total* is what a user sees who switches the cache on.

# %%
run.cells.where(effect="exact")

# %%
table = run.cells.frame
table.groupby(["effect", "pool"])[["positions", "bits_differ", "flips"]].sum()

# %% [markdown]
# ## Tables
#
# `observations`, `pairs`, `restores` and `divergences` are data frames; `columns` says what is in them, with units.

# %%
run.columns("pairs")

# %% [markdown]
# ## One trace
#
# The differences of one trace under the cell with the largest tail, in the order of its answers. A dashed line is a restore:
# what differs before the first one isn't the cache's doing.

# %%
compared = table[table["positions"] > 0].sort_values(["p99", "cell"], na_position="first")
cell = compared["cell"].iloc[-1]
pairs = run.pairs[run.pairs["cell"] == cell]
trace = pairs.groupby("trace")["dlogp"].apply(lambda values: values.abs().max()).sort_values(na_position="first").index[-1]

rows = run.trace(trace, cell)
figure, axes = plt.subplots(figsize=(9, 3.2))
for branch, part in rows.groupby("branch"):
    axes.plot(part["position"], part["dlogp"], ".", markersize=4, label=f"branch {branch}")
for restored in sorted((rows["position"] - rows["offset_from_restore"]).dropna().unique()):
    axes.axvline(int(restored), color="0.6", linestyle="--", linewidth=0.8)
axes.axhline(0, color="0.3", linewidth=0.8)
axes.set(xlabel="position (tokens)", ylabel="Δ log p (nat)", title=f"{trace}, {cell}, n = {len(rows):,}")
axes.legend(fontsize=8, frameon=False)
figure.tight_layout()

# %% [markdown]
# ## Where do the arms part?
#
# The first other top-1 token of each branch, in tokens since its first restore. A *censored* branch had none until it ended.

# %%
parted = run.divergences
parted = parted[(parted["kind"] == "argmax") & ~parted["censored"]]
parted.sort_values("offset_from_restore")[["cell", "trace", "branch", "position", "offset_from_restore", "margin"]].head(10)

# %% [markdown]
# ## Restored states
#
# The largest error of a restored state over that of one direct cast to the pool's dtype: 0 is exact, 1 is one rounding, and
# inf is an error where a cast costs nothing.

# %%
error, cast = run.restores["rel_error"], run.restores["one_cast_error"]
restores = run.restores.assign(casts=(error / cast).where(error != 0, 0.0))
restores.groupby(["cell", "layer"])["casts"].max().unstack()

# %% [markdown]
# ## Two runs
#
# Arm by arm, at the positions that both scored. What differs between the environments comes first: another version explains
# more than any number below.

# %%
run.compare(OTHER)

# %% [markdown]
# ## Another gate file
#
# A path, or one that ships (`exact`, `ci`, `operator`, `parallel`, `server`). Nothing is written. Gates of `ci` need more
# traces than the preset quick has, and say how many.

# %%
judged = run.judge(GATES)
judged

# %%
judged.gates.frame.query("verdict != 'pass'")
