"""Vocabulary shared by every layer: identities, samples, the metric catalogue, units, errors, HTTP.

This package is the floor of the house: it imports nothing of the project.
"""
