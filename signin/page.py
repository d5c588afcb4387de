"""The one page that Streamlit does not draw: it must be there before anybody is let in."""

from __future__ import annotations

import html

_STYLE = """
:root { color-scheme: light dark; --ink: #1a2019; --faint: #5f685d; --paper: #fff; --panel: #f5f7f3;
  --line: #dfe4da; --accent: #4f7a00; --on-accent: #fff; --bad: #b3261e; --bad-paper: #fdecea }
@media (prefers-color-scheme: dark) { :root { --ink: #e6ebe4; --faint: #a3aca1; --paper: #0f1210;
  --panel: #181d19; --line: #2a312b; --accent: #8fbf26; --on-accent: #0f1210; --bad: #ff8a82;
  --bad-paper: #3a1916 } }
* { box-sizing: border-box }
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif }
main { width: min(26rem, 100% - 2rem); margin: 12vh auto 2rem; padding: 1.5rem; background: var(--panel);
  border: 1px solid var(--line); border-radius: 8px }
h1 { font-size: 1.15rem; margin: 0 0 1rem }
p { margin: .5rem 0 }
.told { background: var(--bad-paper); color: var(--bad); padding: .5rem .75rem; border-radius: 6px }
label { display: block; margin: .9rem 0; color: var(--faint); font-size: .9rem }
input { display: block; width: 100%; margin-top: .25rem; padding: .5rem .6rem; font: inherit;
  color: var(--ink); background: var(--paper); border: 1px solid var(--line); border-radius: 6px }
button, .button { display: inline-block; margin-top: .5rem; padding: .5rem 1rem; font: inherit;
  cursor: pointer; color: var(--on-accent); background: var(--accent); border: 0; border-radius: 6px;
  text-decoration: none }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px }
table { width: 100%; border-collapse: collapse; margin: .75rem 0; font-size: .9rem }
th, td { text-align: left; padding: .3rem .5rem .3rem 0; border-bottom: 1px solid var(--line) }
th { color: var(--faint); font-weight: 500 }
td { overflow-wrap: anywhere }
a { color: var(--accent) }
.button { color: var(--on-accent) }
"""


def page(body: str, told: str = "") -> str:
    """The whole document; `body` is markup, `told` a sentence about what was just refused."""
    refusal = f'<p class="told" role="alert">{html.escape(told)}</p>' if told else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<title>Sign in · Tritonscope</title>"
        f"<style>{_STYLE}</style></head><body><main><h1>Tritonscope</h1>{refusal}{body}"
        '<p><a href="/">To the pages</a></p></main></body></html>'
    )
