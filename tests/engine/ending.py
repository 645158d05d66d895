"""Why the talker or thinker of an engine ended its requests, as the engine counts it."""

import re

LINE = re.compile(r'^vllm:request_success_total\{finished_reason="(\w+)",[^}]*stage="0"\} (\S+)$', re.MULTILINE)


def ended(client):
    """Return how many requests stage 0 has ended for each reason."""
    return {reason: float(count) for reason, count in LINE.findall(client.metrics())}


def reasons_since(client, before):
    """Return the reasons that have been counted since ``before``, with their numbers."""
    return {reason: count - before[reason] for reason, count in ended(client).items() if count != before[reason]}
