"""Measured comparisons on a server: the only code that combines reading and writing.

Load comes from a process of its own (`experiments.load_generator`), so that the app's threads and the load
do not disturb each other. Every run is an action of `control.facade.Control.perform`: guarded and recorded.
"""
