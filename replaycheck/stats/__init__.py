"""Statistics over traces: plain arrays in, small frozen records out. Numpy and scipy only; no verdicts and no files.

What each module answers (docs/statistics.md has the formulas, their sources and limits):

=============  =======================================================================================================
estimate       Estimated: a number with n, method and interval; fields named as those of schema.estimate.Estimate
reduction      one number a trace: trace_means, window_means; then by_cluster
clusters       ClusterMeans: the same for a stream of traces that memory doesn't hold
intervals      cluster_t, mean_of (cluster-t); fieller (ratio of means); proportion, upper_bound, rate (exact binomial)
bootstrap      pooled_quantile, cluster_bootstrap: clusters resampled; BCa, percentile, exact zero
quantiles      quantiles that are observed values; selection finds them in more values than memory holds
equivalence    tost, tost_ratio (four readings); no_worse (one-sided)
power          tost_power, no_worse_power, traces_for_tost, traces_for_no_worse: what n traces can show
survival       survival (Kaplan-Meier): share_at, restricted_mean_estimate, at_risk_at; first_of_traces
signs          sign_test, votes, mcnemar, first_to_part: paired arms, one vote a trace
flips          count_flips: flips above k·s of the margin; ties and router flips apart
many           benjamini_yekutieli for the exploration matrix; fixed_sequence for gates
onset          find_onset (robust CUSUM against a control) and place: distance to a boundary, residues
alignment      aligned_average round restores, with a permutation p over pseudo-boundaries
half_life      decay_rate (Theil-Sen), half_life: how fast an error dies, to hold against what the model's decays imply
condition      condition_of positions from draws; classify: ill-conditioned or suspicious
precision      LogprobPrecision: the floor that recorded log-probabilities put under |dlogp| and k3
two_samples    are two sets of counts from one distribution? Describes trace sets, judges nothing
=============  =======================================================================================================
"""
