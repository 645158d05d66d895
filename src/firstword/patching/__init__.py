"""The patch series: apply to an installed tree, verify by checksum, list, refresh."""
