"""Does the model answer, and how fast? One request, and where the time of it went."""

from ui import shell, writes

shell.guard()
writes.draw("test_request_page")
