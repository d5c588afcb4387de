"""Settings of the whole suite, and the figures that tests print at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from telemetry import journal_choice

# The same examples in every run: a red run must be red again for the next person who looks.
# No time limits either: they would judge the machine.
settings.register_profile(
    "steady", derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")

FIGURE = "figure"


_STATE: list[Path] = []
"""The state folder of the test that runs and of the fixtures it is the first to ask for; made when wanted."""


def pytest_runtest_setup() -> None:
    """Before any fixture: the next one who wants a state folder gets a new one."""
    _STATE.clear()


@pytest.fixture(scope="session", autouse=True)
def state_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Settings that name no state folder get one of the test: it finds nothing that another one kept."""

    def default_path(environ: Mapping[str, str], sandbox_state: Path | None) -> Path:
        path = journal_choice.default_path(environ, sandbox_state)
        nobodys = journal_choice.default_path({}, None)
        if path != nobodys:
            return path
        if not _STATE:
            _STATE.append(tmp_path_factory.mktemp("state"))
        return _STATE[0] / path.name

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("settings.default_path", default_path)
        yield


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """`figure("3 of 3 answered")`: a line that is printed at the end of the run, also of a passing test."""

    def tell(text: str) -> None:
        request.node.user_properties.append((FIGURE, text))

    return tell


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Figures by test; with several workers they come with the reports."""
    reports = [one for rows in terminalreporter.stats.values() for one in rows]
    told = {
        (report.nodeid, str(text))
        for report in reports
        if isinstance(report, pytest.TestReport)
        for name, text in report.user_properties
        if name == FIGURE
    }
    if told:
        terminalreporter.section("figures")
        for nodeid, text in sorted(told):
            terminalreporter.write_line(f"{nodeid.rsplit('/', 1)[-1]}\n    " + text.replace("\n", "\n    "))
