"""What does the model carry? Load runs, serial against concurrent, sweeps, configurations side by side."""

from ui import shell, writes

shell.guard()
writes.draw("load_runs_page")
