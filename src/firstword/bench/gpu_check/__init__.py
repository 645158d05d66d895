"""What one GPU and PyTorch alone can tell of the patches: no vLLM, no vLLM-Omni, no network.

`sources` reads released files and patches them, `cutting` takes single functions out of them, `cases` calls them
with inputs of the real models' sizes, `measuring` compares the release with the patched file. `worker` does that in
another process, which `parts` starts and ends within a budget; `command` is ``scripts/gpu-check``.
"""
