"""What other code may rely on: the public interface, listed here and nowhere else. ``docs/reference/api.md`` shows it.

* Until the first release a name may change without notice. From then on it keeps its meaning within a minor version (0.2.x).
  Everything that isn't listed may change at any time.
* A name that goes, or changes what it means, is deprecated first: it works for one more minor version and raises a
  :class:`DeprecationWarning` that says what to use and in which version it goes. CHANGELOG.md says when. The fixtures of
  the pytest plugin and the options of the command line follow the same rule.
* Files carry a version (``schema_version``, or ``replaycheck.gates/1``): keys are added within one, never changed or
  removed. Codes of findings and exit codes never get another meaning.
"""

from __future__ import annotations

from dataclasses import dataclass

from replaycheck.deprecation import Deprecated

__all__ = ["DEPRECATED", "PUBLIC", "Surface"]


@dataclass(frozen=True)
class Surface:
    """A module and the names of it that are public. ``use``: what somebody wants who comes here."""

    module: str
    names: tuple[str, ...]
    use: str


PUBLIC = (
    Surface("replaycheck", ("load",), "open a saved run"),
    Surface("replaycheck.notebook.run", ("LoadedRun",), "the tables of a run as data frames"),
    Surface(
        "replaycheck.notebook.shown",
        ("Cells", "Compared", "Gates", "Judged", "Verdict"),
        "parts of a run that show themselves",
    ),
    Surface(
        "replaycheck.testing", ("assert_kernel", "assert_replay_consistent", "probe_kernel"), "test a kernel of yours"
    ),
    Surface(
        "replaycheck_kernels.contract",
        ("KdaInputs", "KdaOutput", "SnapshotRow", "SnapshotSource", "StateKernel"),
        "the one call that all kernels share",
    ),
    Surface("replaycheck_kernels.recipe", ("Recipe", "preset"), "how a kernel rounds"),
    Surface("replaycheck_kernels.oracle", ("ORACLE_KERNEL",), "the float64 oracle"),
    Surface("replaycheck_kernels.recurrent", ("RECURRENT_TORCH",), "a plain kernel that runs any recipe"),
    Surface("replaycheck_kernels.error_model", ("Predicted", "predict_for"), "the error that a recipe predicts"),
    Surface(
        "replaycheck_kernels.providers",
        (
            "Capabilities",
            "Decay",
            "MissingPackage",
            "ModelKind",
            "PoolResult",
            "Provider",
            "ProviderError",
            "ProviderKernel",
            "checked",
            "load_provider",
        ),
        "bring kernels of your own",
    ),
    Surface("replaycheck_kernels.providers.interpreted", ("case", "error"), "inputs to try a kernel on"),
    Surface(
        "replaycheck.subjects.protocol",
        ("Description", "Said", "Subject", "SubjectOptions", "Translated", "Translates"),
        "bring an engine of your own",
    ),
    Surface(
        "replaycheck.compare.record",
        ("ArmRecording", "HitSeen", "ScoredTurn", "StateAt", "WrittenState"),
        "what a subject gives back",
    ),
    Surface("replaycheck.schedule.steps", ("RequestPlan", "Schedule"), "what a subject is asked to run"),
    Surface("replaycheck.schema.arm", ("Arm", "Compiler"), "how it is to be run"),
    Surface("replaycheck.subjects.server.llamacpp.launch", ("LlamaServer",), "a llama.cpp server for a test"),
    Surface("replaycheck.subjects.server.llamacpp.options", ("ServerOptions",), "its options"),
    Surface("replaycheck.faults.fault", ("Fault", "find_fault"), "plant a fault of your own"),
    Surface("replaycheck.faults.cell", ("SmallCell",), "where a fault is tried"),
    Surface("replaycheck.faults.signature", ("Conv", "Grid", "Onset", "Signature", "State"), "what a fault shows"),
    Surface(
        "replaycheck.traces.importers",
        ("Context", "DraftGroup", "Head", "Importer", "Message", "Options", "SourceFile", "Thread"),
        "read a trace format of your own",
    ),
    Surface("replaycheck.stats.estimate", ("Estimated",), "a number with its evidence"),
    Surface("replaycheck.stats.reduction", ("PerTrace", "by_cluster", "trace_means"), "one number a trace"),
    Surface(
        "replaycheck.stats.intervals",
        ("Interval", "cluster_t", "fieller", "mean_of", "proportion", "rate"),
        "intervals",
    ),
    Surface("replaycheck.stats.bootstrap", ("cluster_bootstrap", "pooled_quantile"), "resampling"),
    Surface("replaycheck.stats.equivalence", ("Equivalence", "NoWorse", "no_worse", "tost"), "equivalence"),
    Surface("replaycheck.stats.power", ("no_worse_power", "tost_power", "traces_for_tost"), "how many traces it takes"),
    Surface("replaycheck.stats.survival", ("Survival", "first_of_traces", "survival"), "first divergence"),
    Surface("replaycheck.stats.signs", ("SignTest", "mcnemar", "sign_test"), "paired arms, one vote a trace"),
    Surface(
        "replaycheck.errors",
        ("ExitCode", "ReplayCheckError", "UsageError", "EngineEnvironmentError", "InternalError"),
        "what is raised, and the exit codes",
    ),
)
"""In the order in which a reader meets them."""

DEPRECATED: tuple[Deprecated, ...] = ()
"""Names that still work and warn. A test sees that each does, and that none stays longer than was said."""
