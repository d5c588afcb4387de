"""The read side: one module per source of a server, each read on its own schedule with its own time-out."""
