"""Who is at the other end of a connection: the gate before every page, ways to sign in, and their forms.

`gate.Gate` is the ASGI middleware: it decides who somebody is and hands it to the pages in a sealed header.
"""
