"""llama.cpp's --context-shift on a recurrent model: what was shifted out is still in the state. Needs xllamacpp, httpx.

replaycheck model export --architecture mamba --out .; python context_shift.py tiny-mamba.gguf
"""

import random
import sys

import httpx
import xllamacpp

CONTEXT, KEEP, draws = 512, 40, random.Random(0)  # tokens of a slot; those that a shift leaves at the beginning
params = xllamacpp.CommonParams()
params.model.path, params.hostnames, params.port = sys.argv[1], ["127.0.0.1"], 0
params.n_parallel, params.n_ctx, params.ctx_shift, params.cpuparams.n_threads = 2, 2 * CONTEXT, True, 1
server = xllamacpp.Server(params)
prompt, more = ([draws.randint(33, 126) for _ in range(length)] for length in (300, 12))


def ask(prompt: list[int], new: int, cached: bool) -> tuple[list[int], dict[int, float], int]:
    """New tokens, log-probabilities of the first, and how much of the prompt came from the cache."""
    body = {"prompt": prompt, "n_predict": new, "temperature": 0, "n_probs": 144, "return_tokens": True}
    body |= {"cache_prompt": cached, "id_slot": 0 if cached else 1, "n_keep": KEEP, "ignore_eos": True}
    said = httpx.post(f"{server.listening_address}/completion", json=body, timeout=60).json()
    top = said["completion_probabilities"][0]["top_logprobs"]
    return said["tokens"], {each["id"]: each["logprob"] for each in top}, said["timings"]["cache_n"]


whole = prompt + ask(prompt, CONTEXT - len(prompt) + 60, True)[0][:-1]  # outgrows the context by 60 tokens
drop = (CONTEXT - 1 - KEEP) // 2
shifted = whole[:KEEP] + whole[KEEP + drop :] + more  # goes on from the text that the slot says it holds
_, answer, hit = ask(shifted, 1, True)
print(f"{hit} of {len(shifted)} tokens from the cache; largest difference, nat, of the answer and the one to")
right = ask(shifted, 1, False)[1]
print(f"{max(abs(answer[token] - right[token]) for token in right):8.1e} the same prompt, uncached")
params.ctx_shift, params.n_ctx = False, 4096
server = xllamacpp.Server(params)  # a second one, with room for all of it
right = ask(whole + more, 1, False)[1]
print(f"{max(abs(answer[token] - right[token]) for token in right):8.1e} the text before anything was discarded")
