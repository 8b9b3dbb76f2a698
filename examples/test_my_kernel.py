"""A kernel author's tests: probes of a kernel, and replay with the state cached and not. Run: pytest test_my_kernel.py

Installing replaycheck gives pytest the fixtures. On a GPU: pytest --replaycheck-device cuda test_my_kernel.py
"""

from examples.provider import factory


def test_probes(assert_kernel, kernel_property):
    assert_kernel(factory().kernels[0], recipe="exact", properties=[kernel_property], exact=["restore"])


def test_replay(assert_replay_consistent):
    assert_replay_consistent(factory().kernels[0], groups=["one_token_and_full_hit"])
