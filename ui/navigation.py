"""The table of pages: adding a page is its file under pages/, one row here, and its test."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class PageRow:
    """One page: its address below the app's, the name in the menu, an icon, and the question it answers.

    `keys` are the widgets whose values (text) stand in the address of this page.
    """

    address: str
    title: str
    icon: str
    question: str
    keys: tuple[str, ...] = ()

    @property
    def file(self) -> Path:
        """The page's script."""
        return ROOT / "pages" / f"{self.address}.py"


PAGES = (
    PageRow(
        "overview", "Overview", ":material/monitoring:", "Is anything wrong, and where?", ("find", "show")
    ),
    PageRow(
        "triage",
        "Triage",
        ":material/emergency:",
        "What do I do? What changed before?",
        ("model", "version", "before", "with"),
    ),
    PageRow("model", "Model", ":material/deployed_code:", "Why is this model slow?", ("model", "version")),
    PageRow("gpu", "GPU & VRAM", ":material/memory:", "What fills the GPUs?"),
    PageRow("capacity", "Capacity", ":material/fit_screen:", "What fits? Memory and instances."),
    PageRow(
        "repository",
        "Repository",
        ":material/inventory_2:",
        "What is loaded? Load and unload models.",
        ("model",),
    ),
    PageRow(
        "test_request",
        "Test request",
        ":material/send:",
        "Does the model answer, and how fast?",
        ("model", "version"),
    ),
    PageRow(
        "load_runs",
        "Load runs",
        ":material/speed:",
        "What does the model carry? Which configuration serves most?",
        ("model", "version", "run"),
    ),
    PageRow(
        "explore",
        "Explore",
        ":material/table_view:",
        "Every family the servers report, as printed.",
        ("find", "family"),
    ),
)
"""In the order of the menu; the first one opens without an address."""

DEFAULTS = {"show": "all", "before": "before it began", "with": "choose another model"}
"""Values of such widgets that need no place in the address."""
