"""/sign-in and /sign-out: who one is and may do what, the password's form, the way to the issuer."""

from __future__ import annotations

import hashlib
import hmac
import html
import secrets
from collections.abc import Callable, Sequence
from urllib.parse import parse_qs, urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from signin.connection import Connection
from signin.events import Tell, say_on_stdout
from signin.gate import MAX_FORM_BYTES, SIGN_IN, SIGN_OUT
from signin.page import page
from signin.throttle import Throttle
from signin.tickets import Tickets
from signin.visitors import COOKIE, Visitor, Visitors, tidy
from telemetry.access import How

FORM_COOKIE = "tritonscope_form"
_FORM_SECONDS = 3600.0
_FORM = "form"
WRONG = "That is not the password."
ELSEWHERE = (
    "The shared password counts on this machine only: open the app there or through an SSH tunnel, "
    "or let the settings allow it (access: password: beyond_loopback)."
)
FOREIGN = "This form was not sent from this page: open it again. Nothing was done."
TOO_LARGE = "This form is too large. Nothing was done."


class Forms:
    """The pages for signing in and out. `issuer_link` makes the address that begins single sign-on."""

    def __init__(
        self,
        visitors: Callable[[], Visitors],
        tickets: Tickets,
        throttle: Throttle,
        issuer_link: Callable[[], str],
        server_ids: Callable[[], Sequence[str]],
        tell: Tell = say_on_stdout,
    ) -> None:
        self._visitors = visitors
        self._tickets = tickets
        self._throttle = throttle
        self._issuer_link = issuer_link
        self._server_ids = server_ids
        self._tell = tell

    def routes(self) -> list[Route]:
        """The addresses."""
        return [
            Route(SIGN_IN, self._shown, methods=["GET"]),
            Route(SIGN_IN, self._sign_in, methods=["POST"]),
            Route(SIGN_OUT, self._sign_out, methods=["POST"]),
        ]

    async def _shown(self, request: Request) -> Response:
        return self._page(request, _local_path(request.query_params.get("next", "/")))

    async def _sign_in(self, request: Request) -> Response:
        fields = await self._fields(request)
        if isinstance(fields, Response):
            return fields
        visitors, connection = self._visitors(), Connection.of(request.scope)
        back = _local_path(fields.get("next", "/"))
        shared = visitors.access.password
        if shared is None or not visitors.password_may_open(connection):
            return self._page(request, back, ELSEWHERE, status=403)
        name = tidy(fields.get("name", "")) or "somebody"
        wait = self._throttle.admit(connection.address)
        right = wait <= 0 and _same(fields.get("password", ""), shared.value)
        outcome = "done" if right else "refused"
        self._tell("sign-in", who=name, how=How.PASSWORD, address=connection.address, outcome=outcome)
        if wait > 0:
            refused = self._page(request, back, _wait_words(wait), status=429)
            refused.headers["Retry-After"] = str(int(wait) + 1)
            return refused
        if not right:
            return self._page(request, back, WRONG, status=403)
        self._throttle.forget(connection.address)
        answer = RedirectResponse(back, status_code=303)
        answer.set_cookie(
            COOKIE,
            visitors.password_cookie(name, secrets.token_hex(16)),
            max_age=int(visitors.access.session_seconds),
            httponly=True,
            samesite="lax",
        )
        return answer

    async def _sign_out(self, request: Request) -> Response:
        fields = await self._fields(request)
        if isinstance(fields, Response):
            return fields
        visitor = self._visitors().of(Connection.of(request.scope))
        if visitor.session:
            self._tickets.end(visitor.session)
            self._tell("sign-out", who=visitor.name, how=visitor.how, address=visitor.address, outcome="done")
        answer = RedirectResponse(SIGN_IN, status_code=303)
        answer.delete_cookie(COOKIE, httponly=True, samesite="lax")
        return answer

    async def _fields(self, request: Request) -> dict[str, str] | Response:
        """The form's fields; an answer instead if it is not a form of ours."""
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_FORM_BYTES:
                return self._page(request, "/", TOO_LARGE, status=413)
        parsed = parse_qs(body.decode("utf-8", errors="replace"), keep_blank_values=True)
        fields = {name: values[-1] for name, values in parsed.items()}
        note = self._tickets.open(fields.get("token", ""), purpose=_FORM)
        cookie = request.cookies.get(FORM_COOKIE, "")
        mine = note is not None and hmac.compare_digest(str(note["form"]).encode(), cookie.encode())
        if not mine or not self._from_here(request):
            return self._page(request, "/", FOREIGN, status=403)
        return fields

    def _from_here(self, request: Request) -> bool:
        """False if the browser says that another site sent the form."""
        origin = request.headers.get("origin", "")
        if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return False
        known = {request.headers.get("host", ""), urlsplit(self._visitors().access.public_url).netloc}
        return not origin or urlsplit(origin).netloc in known - {""}

    def _page(self, request: Request, back: str, told: str = "", *, status: int = 200) -> HTMLResponse:
        visitors, connection = self._visitors(), Connection.of(request.scope)
        visitor = visitors.of(connection)
        form = request.cookies.get(FORM_COOKIE) or secrets.token_hex(16)
        token = self._tickets.seal({"form": form}, _FORM_SECONDS, purpose=_FORM)
        hidden = f'<input type="hidden" name="token" value="{token}">'
        hidden += f'<input type="hidden" name="next" value="{html.escape(back)}">'
        answer = HTMLResponse(page(self._body(visitors, visitor, connection, hidden), told), status)
        answer.set_cookie(FORM_COOKIE, form, httponly=True, samesite="strict")
        answer.headers["Cache-Control"] = "no-store"
        return answer

    def _body(self, visitors: Visitors, visitor: Visitor, connection: Connection, hidden: str) -> str:
        access, parts = visitors.access, [self._who(visitors, visitor)]
        if visitor.how is not How.ANONYMOUS:
            return "".join((*parts, _WAYS_OUT.get(visitor.how, "").format(action=SIGN_OUT, hidden=hidden)))
        if access.oidc is not None:
            link, label = html.escape(self._issuer_link()), html.escape(access.oidc.label)
            parts.append(f'<p><a class="button" href="{link}">Sign in with {label}</a></p>')
        if access.password is not None and visitors.password_may_open(connection):
            parts.append(_PASSWORD_FORM.format(action=SIGN_IN, hidden=hidden))
        elif access.password is not None:
            parts.append(f"<p>{html.escape(ELSEWHERE)}</p>")
        if not access.can_sign_in:
            parts.append("<p>The settings name no way to sign in at this app (access: oidc or password).</p>")
        return "".join(parts)

    def _who(self, visitors: Visitors, visitor: Visitor) -> str:
        me = visitor.identity(visitors.access)
        rows = [
            f"<tr><td>{html.escape(server)}</td><td>{me.listed(server)}</td></tr>"
            for server in self._server_ids()
            if me.sees(server)
        ]
        table = f"<table><tr><th>Server</th><th>You may</th></tr>{''.join(rows)}</table>" if rows else ""
        sees = table or "<p>You may see no server.</p>"
        return f"<p>You are <b>{html.escape(me.short_name)}</b>, {html.escape(str(me.how))}.</p>{sees}"


_WAYS_OUT = {
    How.PASSWORD: '<form method="post" action="{action}">{hidden}<button>Sign out</button></form>',
    # Streamlit's own address: it also tells the issuer.
    How.OIDC: '<p><a class="button" href="/auth/logout">Sign out</a></p>',
    How.PROXY: "<p>The proxy before this app signed you in; sign out there.</p>",
}
_PASSWORD_FORM = """<form method="post" action="{action}">{hidden}
<label>Your name, for the journal<input name="name" required maxlength="80" autocomplete="name"></label>
<label>Password<input name="password" type="password" required autocomplete="current-password"></label>
<button>Sign in</button></form>"""


def _same(given: str, wanted: str) -> bool:
    """Compared in a time that tells neither how much of it is right nor how long it is."""
    one, other = (hashlib.sha256(text.encode()).digest() for text in (given, wanted))
    return hmac.compare_digest(one, other)


def _wait_words(seconds: float) -> str:
    if seconds > 120:
        return f"Too many wrong passwords: refused for {seconds / 60:.0f} minutes. Nothing was checked."
    return f"Too many wrong passwords: wait {max(1, round(seconds))} s. Nothing was checked."


def _local_path(target: str) -> str:
    """A path of this app; anything that leads elsewhere becomes the first page."""
    parts = urlsplit(target)
    safe = target.startswith("/") and not target.startswith(("//", "/\\")) and target.isprintable()
    return target if safe and not parts.scheme and not parts.netloc else "/"
