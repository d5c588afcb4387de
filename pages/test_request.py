"""Does the model answer, and how fast? One request, or the same request serially and concurrently."""

from ui import shell, writes

shell.guard()
writes.draw("test_request_page")
