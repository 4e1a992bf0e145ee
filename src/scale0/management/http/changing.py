"""Routes that change something: logging in and out, and commands."""

from __future__ import annotations

import uuid
from typing import Any, Literal

import msgspec
from starlette.responses import Response
from starlette.types import ASGIApp

from scale0.management.http.door import ask
from scale0.management.http.routing import Answer, Call, Open, Parameter, Path, as_json, body_of
from scale0.management.http.sessions import LIFETIME_S
from scale0.management.http.shapes import (
    CommandBody,
    CommandId,
    Done,
    DoneByMany,
    LoginBody,
    Refused,
    Targets,
    TokenBody,
)
from scale0.management.vocabulary import COMMANDS, Command, Role

IN = Answer(204, "logged in: the cookie is set")


def paths() -> list[Path]:
    return [
        Path(
            method="POST",
            path="/api/v1/login",
            name="login",
            tag="login",
            summary="log in with a name and a password",
            handler=log_in,
            needs=Open.TO_ALL,
            body=LoginBody,
            answers=(IN,),
        ),
        Path(
            method="POST",
            path="/api/v1/login/token",
            name="login_token",
            tag="login",
            summary="log in with a one-time token",
            handler=log_in_by_token,
            needs=Open.TO_ALL,
            body=TokenBody,
            answers=(IN,),
        ),
        Path(
            method="POST",
            path="/api/v1/logout",
            name="logout",
            tag="login",
            summary="end this session, and its open pages",
            handler=log_out,
            needs=Role.VIEW,
            answers=(Answer(204, "the session has ended"),),
        ),
        *(_command(command) for command in COMMANDS.values()),
        Path(
            method="POST",
            path="/api/v1/commands/{name}",
            name="unknown command",
            tag="commands",
            summary="a command that there is not",
            handler=unknown,
            needs=Role.VIEW,
            takes=(Parameter("name", {"type": "string"}, "none of the others", "path", is_needed=True),),
            answers=(),
        ),
    ]


async def log_in(call: Call) -> ASGIApp:
    body: LoginBody = await body_of(call.request, LoginBody)
    return _let_in(call, await call.site.visitors.log_in(body.user, body.password, call.request.state.source))


async def log_in_by_token(call: Call) -> ASGIApp:
    body: TokenBody = await body_of(call.request, TokenBody)
    return _let_in(call, call.site.visitors.log_in_by_token(body.token, call.request.state.source))


async def log_out(call: Call) -> ASGIApp:
    if call.who.session:
        call.site.visitors.sessions.close(call.who.session)
        call.site.streams.check()
    answer = Response(status_code=204)
    state = call.request.state
    answer.delete_cookie(state.cookie, secure=state.is_secure, httponly=True, samesite="strict")
    return answer


def _let_in(call: Call, session: str) -> Response:
    answer = Response(status_code=204)
    answer.set_cookie(
        call.request.state.cookie,
        session,
        max_age=int(LIFETIME_S),
        secure=call.request.state.is_secure,
        httponly=True,
        samesite="strict",
    )
    return answer


async def unknown(call: Call) -> ASGIApp:
    name = call.request.path_params["name"]
    raise Refused(404, f"no command {name[:80]!r}", f"there are {', '.join(COMMANDS)}")


def _command(command: Command) -> Path:
    async def run(call: Call) -> ASGIApp:
        return await _run(call, command)

    is_free = not [field for field in msgspec.structs.fields(command.arguments) if field.required]
    arguments: Any = ("arguments", command.arguments)
    if is_free:
        arguments += (msgspec.field(default_factory=command.arguments),)
    fields = [arguments, ("brokers", Targets, "own"), ("command_id", CommandId, "")]
    title = "".join(word.capitalize() for word in command.name.split("_"))
    body = msgspec.defstruct(f"{title}Body", fields, forbid_unknown_fields=True)
    return Path(
        method="POST",
        path=f"/api/v1/commands/{command.name}",
        name=command.name,
        tag="commands",
        summary=command.summary,
        handler=run,
        needs=command.role,
        body=body,
        answers=(
            Answer(200, "it was carried out", (Done, DoneByMany)),
            Answer(207, "some brokers did not carry it out", DoneByMany),
        ),
    )


async def _run(call: Call, command: Command) -> ASGIApp:
    body: CommandBody = await body_of(call.request, CommandBody)
    try:
        msgspec.convert(body.arguments, command.arguments)
    except msgspec.ValidationError as error:
        raise Refused(400, f"{command.name}: {error}", "/docs tells its arguments") from None
    command_id = body.command_id or str(uuid.uuid4())
    brokers: list[str] | Literal["own", "all"] = body.brokers
    try:
        result = await ask(
            call.site.door,
            call.who.principal,
            command.name,
            body.arguments,
            command_id=command_id,
            brokers=brokers,
        )
    finally:
        if command.is_change:
            call.site.snapshots.spoil()
    if brokers == "own":
        return as_json(Done(command_id, result))
    results = result["results"]
    is_whole = bool(result["complete"]) and all(int(one.get("code", 500)) < 400 for one in results)
    return as_json(DoneByMany(result.get("command_id") or command_id, is_whole, results), 200 if is_whole else 207)
