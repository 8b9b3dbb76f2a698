"""llama.cpp's --cache-reuse on a recurrent model: the answer to a text that wasn't sent. Needs xllamacpp and httpx.

replaycheck model export --architecture mamba --out .; python cache_reuse.py tiny-mamba.gguf
"""

import random
import sys

import httpx
import xllamacpp

params = xllamacpp.CommonParams()
params.model.path, params.hostnames, params.port = sys.argv[1], ["127.0.0.1"], 0
params.n_parallel, params.n_ctx, params.n_cache_reuse, params.cpuparams.n_threads = 2, 4096, 8, 1
server = xllamacpp.Server(params)
draws = random.Random(0)
first, second, third = ([draws.randint(33, 126) for _ in range(length)] for length in (98, 31, 116))


def ask(prompt: list[int], cached: bool) -> tuple[dict[int, float], int]:
    """Log-probabilities of the next token, and how much of the prompt came from the cache."""
    body = {"prompt": prompt, "n_predict": 1, "temperature": 0, "n_probs": 144}
    body |= {"cache_prompt": cached, "id_slot": 0 if cached else 1}
    said = httpx.post(f"{server.listening_address}/completion", json=body, timeout=60).json()
    top = said["completion_probabilities"][0]["top_logprobs"]
    return {each["id"]: each["logprob"] for each in top}, said["timings"]["cache_n"]


for stop in (20, 60, len(third)):  # a client sends a message in three parts: each leaves a checkpoint near its end
    ask(first + second + third[:stop], True)
edited = first + third  # and then drops its second message
answer, hit = ask(edited, True)
mixed = (first + second + third)[:hit] + edited[hit:]
print(f"{hit} of {len(edited)} tokens from the cache; largest difference, nat, of the answer and the one to")
for text, name in ((edited, "the same prompt, uncached"), (mixed, f"the old text's first {hit} tokens and the rest")):
    right = ask(text, False)[0]
    print(f"{max(abs(answer[token] - right[token]) for token in right):8.1e} {name}")
