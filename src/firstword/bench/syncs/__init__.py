"""Count where the host waits for the device, without a device.

`held` is a tensor that says it is on a GPU; `claims` lets code ask for that device; `counting` is what was
seen. `recognition`, `streaming` and `talking` are workloads: the installed classes, called as the runner
calls them. `rules` says which operator makes the host wait on CUDA.
"""
