"""Measurements: side by side in one run, medians, the machine named. No test asserts a speed."""
