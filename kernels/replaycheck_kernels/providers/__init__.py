"""Kernels of other packages behind our contract: fla, SGLang, vLLM, ours, and third parties'.

``load_provider("sglang", path)`` gives a :class:`Provider`; ``provider.kernel("kda", "chunk")`` a kernel with what it can
do, whose ``kernel`` is the contract's StateKernel. Engines aren't imported: ``shim`` loads their kernel files alone. What a
provider declares is a claim, and ``probe kernels`` tests it. Another package joins with an entry point in
``replaycheck.kernels``, or is named as ``pkg.mod:factory``; its factory returns a Provider.

==============  ====================================================================================================
provider        the interface: kinds, capabilities, errors
loading         from ``--kernels`` to a provider
shim            import kernel files without their package; ``platform``: facts that they ask their engine for
collect         what can be loaded, and a line for what can't
adapt, decode   the contract's inputs packed for Triton kernels; decode calls as a recurrent form
fla             fla-core: chunk and recurrent operators
sglang          SGLang: chunk with a tracked snapshot, packed decode, verify (calls in ``sglang_calls``, ``sglang_helion``)
vllm            vLLM: the same, and FlashKDA (calls in ``vllm_calls`` and ``flashkda``)
exposed         what chunk kernels hand to each other, while the public call runs
..._windows     ``sglang_windows``, ``vllm_windows``: verify and commit as calls that can be repeated
tuning          Triton's autotuning, bounded
interpreter     repairs of Triton's interpreter; ``interpreted`` runs kernels in it, in a process of its own
==============  ====================================================================================================
"""

from .loading import load_provider
from .provider import (
    Capabilities,
    Decay,
    MissingPackage,
    ModelKind,
    PoolForward,
    PoolResult,
    Provider,
    ProviderError,
    ProviderKernel,
    checked,
)

__all__ = [
    "Capabilities",
    "Decay",
    "MissingPackage",
    "ModelKind",
    "PoolForward",
    "PoolResult",
    "Provider",
    "ProviderError",
    "ProviderKernel",
    "checked",
    "load_provider",
]
