"""Key files: the secret half of a CURVE key, which never leaves its machine.

A file is JSON as `scale0 keys new` writes it, or one line of Z85 text, the secret key alone. It is its owner's only:
one that others can read is refused, whatever is in it. A key is named by the path of its file, or by a name, which
stands for a file of `$XDG_CONFIG_HOME/scale0/keys`.

A broker's key is rotated in two steps, so that everybody can learn the next one ahead: the file holds both, and the
time from which on a start takes the next one.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import zmq

from scale0.core.permissions import read_time, write_time
from scale0.errors import SettingsError, UsageError
from scale0.protocol.public_keys import is_key
from scale0.transport.atomic_file import replace_file

KEY_VARIABLE: Final = "SCALE0_KEY"
SERVER_KEY_VARIABLE: Final = "SCALE0_SERVER_KEY"
FILE_BYTES_MAX: Final = 4096
HANDSHAKE_MS: Final = 15_000  # it costs a millisecond at both ends: after a broker's restart thousands stand in line
SUFFIX: Final = ".key"
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO

Kind = Literal["worker", "client", "peer", "any"]


class KeyPair(msgspec.Struct, frozen=True):
    """A public key and its secret, which is not shown."""

    public: str
    secret: str

    def __repr__(self) -> str:
        return f"KeyPair({self.public!r})"


class KeyFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """What a file holds. `kind` is what the key was made for; what it may do is for brokers to say."""

    public: str
    secret: str
    name: str = ""
    kind: Kind = "any"
    next_public: str = ""
    next_secret: str = ""
    next_from: str = ""  # UTC: who starts then or later takes the next one

    def __repr__(self) -> str:
        return f"KeyFile({self.name!r}, {self.public!r})"

    def pair(self, wall_s: float) -> KeyPair:
        """The key that a process which starts now has."""
        if self.next_public and wall_s >= read_time(self.next_from):
            return KeyPair(self.next_public, self.next_secret)
        return KeyPair(self.public, self.secret)


def make_pair() -> KeyPair:
    public, secret = zmq.curve_keypair()
    while public.startswith(b"-"):  # on a command line it would look like an option
        public, secret = zmq.curve_keypair()
    return KeyPair(public.decode(), secret.decode())


def make(name: str, kind: Kind = "any") -> KeyFile:
    """A new key."""
    pair = make_pair()
    return KeyFile(public=pair.public, secret=pair.secret, name=name, kind=kind)


def with_next(file: KeyFile, from_s: float) -> KeyFile:
    """The same key, and one that follows it."""
    pair = make_pair()
    told = {"next_public": pair.public, "next_secret": pair.secret, "next_from": write_time(from_s)}
    return msgspec.structs.replace(settled(file, time.time()), **told)


def settled(file: KeyFile, wall_s: float) -> KeyFile:
    """Without a former key whose time is over."""
    pair = file.pair(wall_s)
    if pair.public == file.public:
        return file
    return KeyFile(public=pair.public, secret=pair.secret, name=file.name, kind=file.kind)


def use(socket: zmq.Socket[bytes], server_key: str, pair: KeyPair) -> None:
    """The next connection that this socket makes is encrypted, to a broker that has `server_key`. Raises `ZMQError`."""
    options: Any = {
        zmq.CURVE_SERVERKEY: server_key.encode(),
        zmq.CURVE_PUBLICKEY: pair.public.encode(),
        zmq.CURVE_SECRETKEY: pair.secret.encode(),
        zmq.HANDSHAKE_IVL: HANDSHAKE_MS,
    }
    for option, value in options.items():
        socket.set(option, value)


def load(path: Path) -> KeyFile:
    """What `path` holds. Raises `SettingsError`, in which no secret is told."""
    try:
        with path.open("rb") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & _OTHERS:
                raise SettingsError(f"{path}: others can read this key; keep it to yourself: chmod 600 {path}")
            data = file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        raise SettingsError(f"{path}: there is no such key; make one: scale0 keys new {path.stem}") from None
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from None
    return _parse(data, path)


def _parse(data: bytes, path: Path) -> KeyFile:
    text = data.decode("ascii", errors="replace").strip()
    if is_key(text):
        return KeyFile(public=zmq.curve_public(text.encode()).decode(), secret=text, name=path.stem)
    try:
        file = msgspec.json.decode(data, type=KeyFile)
        is_whole = not file.next_public or (is_key(file.next_secret) and read_time(file.next_from) > 0)
    except (ValueError, RecursionError):  # the decoder's words may quote what it read
        raise SettingsError(f"{path}: this is no key file; make one: scale0 keys new NAME") from None
    if not is_whole or not is_key(file.public) or not is_key(file.secret):
        raise SettingsError(f"{path}: a key in it is damaged; make a new one: scale0 keys new NAME")
    if zmq.curve_public(file.secret.encode()).decode() != file.public:
        raise SettingsError(f"{path}: its public and its secret key do not belong together")
    return file


def save(path: Path, file: KeyFile, *, is_new: bool = False) -> None:
    """Write it, for its owner alone."""
    if is_new and path.exists():
        raise UsageError(f"{path} exists already\nuse another name, or replace its key: scale0 keys rotate {path.stem}")
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    replace_file(path, msgspec.json.encode(file) + b"\n")  # a temporary file is made with mode 600, and moved


# --- where they are -------------------------------------------------------------------------------------------------


def config_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """`$XDG_CONFIG_HOME/scale0`, by default `~/.config/scale0`. The rule says that a relative path is ignored."""
    told = environ.get("XDG_CONFIG_HOME", "")
    home = Path(environ["HOME"]) if environ.get("HOME") else Path("~").expanduser()
    return (Path(told) if told and Path(told).is_absolute() else home / ".config") / "scale0"


def path_of(name: str, environ: Mapping[str, str] = os.environ) -> Path:
    """The file that `name` means: a path if it looks like one, else a key of this user."""
    if "/" in name or name.endswith(SUFFIX):
        return Path(name)
    if not name or not all(letter.isalnum() or letter in "._-" for letter in name) or name.startswith("."):
        raise UsageError(f"{name!r} is no name for a key\nuse letters, digits, dots, dashes; or the path of a file")
    return config_dir(environ) / "keys" / f"{name}{SUFFIX}"


def allowed_path(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the keys that a broker allows are listed, unless it is told another file."""
    return config_dir(environ) / "allowed.json"


# --- what participants are told -------------------------------------------------------------------------------------


def own_pair(key: str | os.PathLike[str] | None, environ: Mapping[str, str] = os.environ) -> KeyPair | None:
    """The key that `key` names, or the environment; None: without one."""
    told = os.fspath(key) if key is not None else environ.get(KEY_VARIABLE, "")
    if not told:
        return None
    path = Path(told) if isinstance(key, Path) else path_of(told, environ)
    return load(path).pair(time.time())


def server_keys(
    told: str | None, endpoints: list[str], environ: Mapping[str, str] = os.environ, *, is_needed: bool = False
) -> dict[str, str]:
    """The brokers' public keys by their addresses: one for all, or as many as there are addresses, with commas."""
    text = told if told is not None else environ.get(SERVER_KEY_VARIABLE, "")
    keys = [key.strip() for key in text.split(",") if key.strip()]
    for key in keys:
        if not is_key(key):
            raise UsageError(f"{key!r} is no public key\non the broker: scale0 keys show NAME")
    if not keys:
        if is_needed:
            raise UsageError(
                "a key was given, and not the broker's public key\n"
                f"give server_key, --server-key or {SERVER_KEY_VARIABLE}; on the broker: scale0 keys show NAME"
            )
        return {}
    if len(keys) == 1:
        keys *= len(endpoints)
    if len(keys) != len(endpoints):
        raise UsageError(f"{len(keys)} server keys for {len(endpoints)} addresses\ngive one for all, or one for each")
    return dict(zip(endpoints, keys, strict=True))
