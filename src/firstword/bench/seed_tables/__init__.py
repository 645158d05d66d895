"""`build_attn_metadata` of vLLM-Omni 0.16.0's code predictor, which vllm-omni #1614 changed, in three forms.

The method is gone since 0.18, so nothing here is served; it is written anew, from #1614's description.
"""
