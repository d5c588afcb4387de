"""The YAML between the first two `---` lines of a Markdown file, every value with its line number."""

from __future__ import annotations

from telemetry.located_yaml import Located, read_located


class FrontMatterError(ValueError):
    """The front matter cannot be used; `line` is the 1-based line of the file."""

    def __init__(self, line: int, sentence: str) -> None:
        super().__init__(sentence)
        self.line = line


def read_front_matter(text: str) -> tuple[Located, int, str]:
    """(front matter, line number of the body's first line, body).

    Raises FrontMatterError for the first thing in it that cannot be used: a rule is read whole or not.
    """
    lines = text.split("\n")
    if lines[0].strip() != "---" or "---" not in (line.strip() for line in lines[1:]):
        raise FrontMatterError(1, "a rule begins with front matter between two lines of ---")
    end = next(number for number, line in enumerate(lines[1:], 1) if line.strip() == "---")
    # The opening --- is replaced by an empty line, so that lines are counted as in the file.
    top, notices = read_located("\n".join(["", *lines[1:end]]), "front matter")
    if notices:
        told = notices[0].text.removeprefix("not used: ")
        raise FrontMatterError(notices[0].line or 1, f"the front matter cannot be read: {told}")
    if top is None:
        raise FrontMatterError(1, "the front matter of the rule is empty")
    return top, end + 2, "\n".join(lines[end + 1 :])
