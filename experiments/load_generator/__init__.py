"""The load generator, a process of its own: `python -m experiments.load_generator`.

It knows nothing but bytes: complete HTTP/1.1 messages go out over kept connections, of the answers only the
status and the length are looked at. The standard library alone is imported, so that it starts quickly and
leaves the processor to the server. Clients that build and parse every request would measure themselves.

One line of JSON comes in (the order, see `experiments.load_process`), lines of JSON go out: progress about
five times a second, `ready` once the warm-up has ended, and after the answer `go` the result. It ends early
when a line `stop` comes or its standard input is closed, because then its starter is gone.
"""
