"""Statistics over traces: plain arrays in, small frozen records out. Numpy and scipy only; no verdicts and no files.

What each module answers (docs/statistics.md has the formulas, their sources and limits):

=============  =======================================================================================================
estimate       Estimated: a number with n, method and interval; fields named as those of schema.result.Estimate
reduction      one number a trace: trace_means, trace_maxima, trace_quantiles, window_means; then by_cluster
clusters       ClusterMeans: the same for a stream of traces that memory doesn't hold
intervals      cluster_t, mean_of (cluster-t); fieller (ratio of means); proportion, upper_bound, rate (exact binomial)
bootstrap      ratio_of_means, pooled_quantile, cluster_bootstrap: clusters resampled; BCa, percentile, exact zero
quantiles      quantiles that are observed values; selection finds them in more values than memory holds
equivalence    tost, tost_ratio (four readings), no_worse, no_worse_ratio (one-sided)
power          tost_power, no_worse_power, traces_for_tost, traces_for_no_worse: what n traces can show
rates          clean_runs_needed, events_allowed, rate_power, runs_needed, exceeds_floor: planning of exact rates
survival       survival (Kaplan-Meier): share_at, restricted_mean_estimate, at_risk_at; first_of_traces
signs          sign_test, votes, mcnemar, first_to_part: paired arms, one vote a trace
flips          count_flips, noise_spread, expected_flips: flips above k·s of the margin; ties and router flips apart
many           benjamini_yekutieli for the exploration matrix; fixed_sequence for gates
onset          find_onset (robust CUSUM against a control) and place: distance to a boundary, residues
alignment      aligned_average round restores, with a permutation p over pseudo-boundaries
half_life      decay_rate (Theil-Sen), half_life, half_life_of_traces: against the half-life that the model implies
condition      condition_of positions from draws; classify: ill-conditioned or suspicious
precision      LogprobPrecision: the floor that recorded log-probabilities put under |dlogp| and k3; require_above
two_samples    are two sets of counts from one distribution? Describes trace sets, judges nothing
=============  =======================================================================================================
"""
