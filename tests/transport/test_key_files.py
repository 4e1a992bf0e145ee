"""Key files: who may read them, what is in them, and that no secret is told."""

from __future__ import annotations

import stat
import time
from pathlib import Path

import pytest
import zmq

from scale0.errors import SettingsError, UsageError
from scale0.transport import key_files
from scale0.transport.key_files import KeyFile


@pytest.fixture
def file(tmp_path: Path) -> tuple[Path, KeyFile]:
    made = key_files.make("pay", "worker")
    path = tmp_path / "keys" / "pay.key"
    key_files.save(path, made, is_new=True)
    return path, made


def test_what_is_saved_is_loaded_and_its_owner_s_alone(file: tuple[Path, KeyFile]) -> None:
    path, made = file
    assert key_files.load(path) == made
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601, 0o666])
def test_a_file_that_others_can_reach_is_refused(file: tuple[Path, KeyFile], mode: int) -> None:
    path, _ = file
    path.chmod(mode)
    with pytest.raises(SettingsError, match="chmod 600"):
        key_files.load(path)


def test_a_secret_alone_is_a_key(tmp_path: Path) -> None:
    public, secret = zmq.curve_keypair()
    path = tmp_path / "old.key"
    path.write_bytes(secret + b"\n")
    path.chmod(0o600)
    assert key_files.load(path).public == public.decode()


@pytest.mark.parametrize("damage", [b"", b"no key", b"{", b'{"public": "x", "secret": "y"}', b"\xff\xfe", b"[" * 5000])
def test_what_is_no_key_is_refused_without_telling_what_it_holds(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "bad.key"
    path.write_bytes(damage)
    path.chmod(0o600)
    with pytest.raises(SettingsError) as refused:
        key_files.load(path)
    assert "scale0 keys new" in str(refused.value)


def test_halves_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "mixed.key"
    one, other = key_files.make("a"), key_files.make("b")
    key_files.save(path, KeyFile(public=one.public, secret=other.secret))
    with pytest.raises(SettingsError, match="do not belong together") as refused:
        key_files.load(path)
    assert other.secret not in str(refused.value)


def test_a_key_that_is_not_there_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="make one: scale0 keys new pay"):
        key_files.load(tmp_path / "pay.key")


def test_no_secret_is_in_what_python_prints(file: tuple[Path, KeyFile]) -> None:
    _, made = file
    rotated = key_files.with_next(made, time.time() + 60)
    for secret in (made.secret, rotated.next_secret):
        assert secret not in f"{made!r} {rotated!r} {made.pair(0.0)!r} {[made.pair(0.0)]}"


def test_an_existing_key_is_not_overwritten(file: tuple[Path, KeyFile]) -> None:
    path, made = file
    with pytest.raises(UsageError, match="exists already"):
        key_files.save(path, key_files.make("pay"), is_new=True)
    assert key_files.load(path) == made


def test_the_next_key_is_taken_from_its_time_on() -> None:
    made = key_files.make("broker", "peer")
    rotated = key_files.with_next(made, 2_000_000_000)
    assert rotated.pair(1_999_999_999).public == made.public
    assert rotated.pair(2_000_000_000).public == rotated.next_public
    assert key_files.settled(rotated, 2_000_000_000).public == rotated.next_public
    assert key_files.settled(rotated, 1_999_999_999) == rotated


def test_names_are_files_of_this_user_and_paths_are_paths() -> None:
    environ = {"XDG_CONFIG_HOME": "/etc/xdg", "HOME": "/home/ada"}
    assert key_files.path_of("pay", environ) == Path("/etc/xdg/scale0/keys/pay.key")
    assert key_files.path_of("pay", {"HOME": "/home/ada", "XDG_CONFIG_HOME": "relative"}) == Path(
        "/home/ada/.config/scale0/keys/pay.key"
    )
    assert key_files.path_of("./pay", environ) == Path("pay")
    assert key_files.path_of("pay.key", environ) == Path("pay.key")
    for name in ("", "..", ".hidden", "a b", "a\n"):
        with pytest.raises(UsageError, match="no name for a key"):
            key_files.path_of(name, environ)


def test_a_key_comes_from_the_argument_or_the_environment(file: tuple[Path, KeyFile]) -> None:
    path, made = file
    assert key_files.own_pair(None, {}) is None
    for pair in (key_files.own_pair(path, {}), key_files.own_pair(str(path), {})):
        assert pair is not None
        assert pair.public == made.public
    from_environment = key_files.own_pair(None, {"SCALE0_KEY": str(path)})
    assert from_environment is not None
    assert from_environment.public == made.public


def test_server_keys_belong_to_addresses_in_their_order() -> None:
    one, other = key_files.make_pair().public, key_files.make_pair().public
    assert key_files.server_keys(one, ["a", "b"], {}) == {"a": one, "b": one}
    assert key_files.server_keys(f"{one}, {other}", ["a", "b"], {}) == {"a": one, "b": other}
    assert key_files.server_keys(None, ["a"], {"SCALE0_SERVER_KEY": one}) == {"a": one}
    assert key_files.server_keys(None, ["a"], {}) == {}
    with pytest.raises(UsageError, match="2 server keys for 3 addresses"):
        key_files.server_keys(f"{one},{other}", ["a", "b", "c"], {})
    with pytest.raises(UsageError, match="is no public key"):
        key_files.server_keys("k", ["a"], {})
    with pytest.raises(UsageError, match="SCALE0_SERVER_KEY"):
        key_files.server_keys(None, ["a"], {}, is_needed=True)


def test_no_key_that_is_made_looks_like_an_option() -> None:
    assert not any(key_files.make_pair().public.startswith("-") for _ in range(500))
