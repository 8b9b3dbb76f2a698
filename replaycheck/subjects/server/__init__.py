"""Servers as subjects: one HTTP client, one adapter an API, and what their caches are expected to hit.

subject, engine, settings   the one subject of all servers, what it asks of an adapter, and its options
vllm, sglang, llamacpp, openai, plain
                            adapters; offline: vLLM in this process
http                        time-outs, bounded retries and bodies, keys unseen
completions, plain_answer   answers, read without believing them
play, order, cuts           a group's requests in order, and where split has to cut
expect, learn, identity     expected hits; what a cache doesn't say about itself; whether it is still the same engine
words                       what is sent where an endpoint takes text
"""
