"""`python -m grafana`: write the boards, say what they hold.

`check FILE...` says what is wrong with a board, `preview` draws the boards over a Prometheus.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from grafana.board import all_panels
from grafana.boards import BOARDS
from grafana.check import problems, targets
from grafana.parameters import Parameters

DASHBOARDS = Path(__file__).parent / "dashboards"


def main(arguments: list[str]) -> int:
    """Exit status 1 if a board is wrong, 2 if a file cannot be read."""
    options = _parser().parse_args(arguments)
    if options.command == "check":
        return _check(options.files)
    if options.command == "preview":
        return _preview(options)
    return _build(_parameters(options), options.out)


def _parser() -> argparse.ArgumentParser:
    defaults = Parameters()
    parser = argparse.ArgumentParser(prog="python -m grafana", description=__doc__)
    parser.set_defaults(command="build")
    commands = parser.add_subparsers(dest="command", required=False, metavar="check | preview")
    check = commands.add_parser("check", help="say what is wrong with a board")
    check.add_argument("files", nargs="+", type=Path)
    preview = commands.add_parser("preview", help="pictures of the boards; needs node, npm and Chromium")
    preview.add_argument("--prometheus", required=True, help="its address")
    preview.add_argument("--pictures", type=Path, default=Path("board-pictures"), help="folder")
    preview.add_argument("--range-seconds", type=int, default=3600)
    preview.add_argument("--scrape-seconds", type=int, default=15)
    preview.add_argument("--chromium", help="its path; default: the one that is installed")
    parser.add_argument(
        "--out", type=Path, default=DASHBOARDS, help="folder to write into (default: %(default)s)"
    )
    parser.add_argument(
        "--server-labels",
        default=",".join(defaults.server),
        help="labels that together tell servers apart, the one to choose by last (default: %(default)s)",
    )
    parser.add_argument("--model-label", default=defaults.model, help="default: %(default)s")
    parser.add_argument("--version-label", default=defaults.version, help="default: %(default)s")
    parser.add_argument("--cluster-label", default=defaults.cluster, help="default: %(default)s")
    parser.add_argument("--namespace-label", default=defaults.namespace, help="default: %(default)s")
    parser.add_argument(
        "--workload-labels",
        default=",".join(defaults.workload),
        help="labels that the replicas of a workload share (default: %(default)s)",
    )
    parser.add_argument(
        "--app-url", default=defaults.app_url, help="address of the app (default: %(default)s)"
    )
    return parser


def _parameters(options: argparse.Namespace) -> Parameters:
    return Parameters(
        server=tuple(options.server_labels.split(",")),
        model=options.model_label,
        version=options.version_label,
        cluster=options.cluster_label,
        namespace=options.namespace_label,
        workload=tuple(options.workload_labels.split(",")),
        app_url=options.app_url.rstrip("/"),
    )


def _build(parameters: Parameters, folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    panel_count = query_count = problem_count = 0
    for name, build in BOARDS.items():
        board = build(parameters)
        document = board.document()
        (folder / name).write_text(board.text(), encoding="utf-8")
        panels = [panel for panel in all_panels(document) if panel["type"] != "row"]
        found, queries = problems(document), len(list(targets(document)))
        print(f"{name}: {len(panels)} panels, {queries} queries")
        print(*(f"  {sentence}" for sentence in found), sep="\n", end="\n" if found else "")
        panel_count, query_count = panel_count + len(panels), query_count + queries
        problem_count += len(found)
    print(f"{len(BOARDS)} boards, {panel_count} panels, {query_count} queries, {problem_count} problems")
    return 1 if problem_count else 0


def _preview(options: argparse.Namespace) -> int:
    # Only here: it drives a browser.
    from grafana.preview import PreviewError, Source, pictures

    source = Source(options.prometheus.rstrip("/"), options.range_seconds, options.scrape_seconds)
    boards = {name: build(_parameters(options)).document() for name, build in BOARDS.items()}
    try:
        made = pictures(boards, source, options.pictures, options.chromium)
    except PreviewError as error:
        print(error, file=sys.stderr)
        return 2
    print(*made, sep="\n")
    return 0


def _check(files: list[Path]) -> int:
    status = 0
    for file in files:
        try:
            board = json.loads(file.read_text(encoding="utf-8"))
            if not isinstance(board, dict):
                raise ValueError("a board is a JSON object")
            found = problems(board)
        except (OSError, ValueError, KeyError, TypeError) as error:
            print(f"{file}: not a board that can be read: {error!r}", file=sys.stderr)
            return 2
        print(f"{file}: {len(found) or 'no'} problems", *(f"  {sentence}" for sentence in found), sep="\n")
        status = status or (1 if found else 0)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
