"""`scale0 worker module:app`: find the `Worker` object and run it, alone or under a supervisor.

The working directory comes first on the path, as with `python -m`. What cannot be imported or is no worker is explained
with names that look like it; that is `UsageError`, exit code 2.
"""

from __future__ import annotations

import difflib
import importlib
import logging
import os
import sys
import threading
import time
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from scale0.cli import failures, saving
from scale0.errors import Scale0Error, UsageError
from scale0.transport.addresses import read_addresses
from scale0.transport.key_files import KEY_VARIABLE, SERVER_KEY_VARIABLE
from scale0.worker import Worker
from scale0.worker.options import check_capacity

USUAL_NAMES = ("worker", "app")
"""Looked for when the target names a module alone and there are several workers in it."""

_OWN_FILES = Path(__file__).parent.parent  # a mistake is shown where the user made it


class WorkerCommand(msgspec.Struct, kw_only=True):
    """What was asked for on the command line. None leaves it to the worker's own settings."""

    target: str
    brokers: list[str] = []
    capacity: int | None = None
    processes: int = 1
    is_reloading: bool = False
    is_verbose: bool = False
    is_saving: bool = True  # keep the last config for the next start; where, the worker's own settings may say


def run(command: WorkerCommand) -> int:
    """Run the command to its end and return its exit code. Raises `Scale0Error` for the caller to show."""
    if command.processes < 1:
        raise UsageError(f"--processes is 1 or more, not {command.processes}")
    if command.processes > 1 or command.is_reloading:
        from scale0.cli.worker_supervisor import supervise

        return supervise(command)
    return serve(command)


def serve(command: WorkerCommand) -> int:
    """Load the worker and run it in this process."""
    worker = load(command.target)
    for name, variable in (("key", KEY_VARIABLE), ("server_key", SERVER_KEY_VARIABLE)):
        if os.environ.get(variable):  # as the command line or the environment says, and not the code
            setattr(worker.options, name, None)
    if command.brokers:
        worker.options.brokers = read_addresses(command.brokers)
    if command.capacity is not None:
        worker.options.capacity = check_capacity(command.capacity)
    if not command.is_saving:
        worker.options.save_config = None
    elif worker.options.save_config is None:
        worker.options.save_config = saving.file_for("worker", worker.options.brokers)
    return worker.run()


# --- loading ------------------------------------------------------------------------------------------------------


def load(target: str) -> Worker:
    """The worker that `module:name` stands for; the module's only one if no name is given."""
    module_name, _, name = target.partition(":")
    if not module_name or module_name.startswith("."):
        raise UsageError(f"{target!r} is not of the form module:app, such as tasks:worker")
    if module_name.endswith(".py") or "/" in module_name:
        likely = module_name.removesuffix(".py").strip("./").replace("/", ".")
        raise UsageError(f"{module_name!r} is a file; name its module\ntry: scale0 worker {likely}:{name or 'worker'}")
    module = _import(module_name)
    return _named(module, name) if name else _only(module)


def _import(name: str) -> ModuleType:
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise UsageError(_no_module(name)) from None
        raise UsageError(_broken(name, error)) from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too: importing runs foreign code
        raise UsageError(_broken(name, error)) from error


def _no_module(name: str) -> str:
    here = Path.cwd()
    folder = here.joinpath(*name.split(".")[:-1])
    names = [path.stem for path in folder.glob("*.py")] + [path.parent.name for path in folder.glob("*/__init__.py")]
    prefix = name.rpartition(".")[0]
    near = difflib.get_close_matches(name.rpartition(".")[2], names)
    text = f"there is no module {name!r} here, in {here}"
    return text + _did_you_mean([f"{prefix}.{each}" if prefix else each for each in near])


def _broken(name: str, error: BaseException) -> str:
    """The last line of the traceback, and where in the user's files it happened."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if "importlib" not in frame.filename and not Path(frame.filename).is_relative_to(_OWN_FILES)
    ]
    where = f"\nin {frames[-1].filename}, line {frames[-1].lineno}" if frames else ""
    if isinstance(error, SyntaxError) and error.filename:
        where = f"\nin {error.filename}, line {error.lineno}"
    if isinstance(error, Scale0Error):  # it says itself what to do
        return f"{error}{where}"
    last_line = traceback.format_exception_only(type(error), error)[-1].strip()
    return f"module {name!r} cannot be imported\n{last_line}{where}"


def _named(module: ModuleType, name: str) -> Worker:
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if isinstance(found, Worker):
        return found
    workers = _workers(module)
    if found is not None:
        what = f"{module.__name__}:{name} is not a Worker, but of type {type(found).__name__}"
    else:
        what = f"module {module.__name__!r} has no {name!r}"
    near = difflib.get_close_matches(name, workers) or list(workers)
    raise UsageError(what + (_did_you_mean([f"{module.__name__}:{each}" for each in near]) or _how_to(module)))


def _only(module: ModuleType) -> Worker:
    workers = _workers(module)
    if len(workers) == 1:
        return next(iter(workers.values()))
    for name in USUAL_NAMES:
        if name in workers:
            return workers[name]
    if workers:
        choices = ", ".join(f"{module.__name__}:{name}" for name in workers)
        raise UsageError(f"module {module.__name__!r} has {len(workers)} workers\nname one: {choices}")
    raise UsageError(f"module {module.__name__!r} has no worker{_how_to(module)}")


def _workers(module: ModuleType) -> dict[str, Worker]:
    return {name: value for name, value in vars(module).items() if isinstance(value, Worker)}


def _did_you_mean(names: list[str]) -> str:
    return f"\ndid you mean: {', '.join(names)}?" if names else ""


def _how_to(module: ModuleType) -> str:
    return f"\nput one there: worker = Worker()   and then: scale0 worker {module.__name__}:worker"


# --- as a child of the supervisor ---------------------------------------------------------------------------------


def child_main(arguments: list[str]) -> int:
    """Serve in a supervised process: `arguments` are the lifeline's descriptor and the command as JSON.

    The lifeline is a pipe that only the supervisor holds open: at its end, even by SIGKILL, this process leaves too.
    """
    lifeline, command = int(arguments[0]), msgspec.json.decode(arguments[1], type=WorkerCommand)
    configure_logging(command.is_verbose)
    threading.Thread(target=_leave_with_parent, args=(lifeline,), name="scale0-lifeline", daemon=True).start()
    try:
        return serve(command)
    except (Scale0Error, KeyboardInterrupt) as error:
        return int(failures.report(error))


def _leave_with_parent(lifeline: int) -> None:
    import signal

    os.read(lifeline, 1)
    os.kill(os.getpid(), signal.SIGTERM)


def configure_logging(is_verbose: bool) -> None:
    """Lines on stderr, unless the worker's module has set up logging of its own."""
    handler = logging.StreamHandler()
    handler.setFormatter(lines())
    logging.basicConfig(level=logging.DEBUG if is_verbose else logging.INFO, handlers=[handler])


def lines() -> logging.Formatter:
    """What a line of the log begins with: the time, in UTC as a broker writes it, and the level."""
    found = logging.Formatter("{asctime}.{msecs:03.0f}Z {levelname:<7} {message}", "%Y-%m-%dT%H:%M:%S", style="{")
    found.converter = time.gmtime
    return found


if __name__ == "__main__":
    sys.exit(child_main(sys.argv[1:]))
