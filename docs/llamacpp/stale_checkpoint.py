"""llama.cpp with default options: a rewind leaves a checkpoint that ends one token behind it. Needs xllamacpp and httpx.

replaycheck model export --architecture mamba --out .; python stale_checkpoint.py tiny-mamba.gguf
"""

import random
import sys

import httpx
import xllamacpp

params, draws = xllamacpp.CommonParams(), random.Random(0)
params.model.path, params.hostnames, params.port = sys.argv[1], ["127.0.0.1"], 0
params.n_parallel, params.n_ctx, params.cpuparams.n_threads = 2, 4096, 1
server = xllamacpp.Server(params)
history, message, paste, end = ([draws.randint(33, 126) for _ in range(length)] for length in (100, 5, 700, 30))


def ask(prompt: list[int], cached: bool = True) -> tuple[dict[int, float], int]:
    """Log-probabilities of the next token, and how much of the prompt came from the cache."""
    body = {"prompt": prompt, "n_predict": 1, "temperature": 0, "n_probs": 144}
    body |= {"cache_prompt": cached, "id_slot": 0 if cached else 1}
    said = httpx.post(f"{server.listening_address}/completion", json=body, timeout=60).json()
    top = said["completion_probabilities"][0]["top_logprobs"]
    return {each["id"]: each["logprob"] for each in top}, said["timings"]["cache_n"]


ask(history)
ask(history + message)  # five more tokens: checkpoints behind 100 tokens and, four before the end, behind 101
edited = [*history, 32, *paste]  # the message is another, and long
ask(edited)  # goes on from 100; the checkpoint behind 101 stays, with the old token in it
prompt = edited[:150] + end  # and then the paste is another
answer, hit = ask(prompt)
old = history + message[:1] + prompt[101:]
print(f"{hit} of {len(prompt)} tokens from the cache; largest difference, nat, of the answer and the one to")
for text, name in ((prompt, "the same prompt, uncached"), (old, "that prompt with the old token at position 100")):
    print(f"{max(abs(answer[token] - right) for token, right in ask(text, cached=False)[0].items()):8.1e} {name}")
