"""How the command line names programs, networks and inputs."""

from __future__ import annotations

import difflib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from kleene import library, verbs
from kleene.cli import busy
from kleene.errors import FileError, InputError, KleeneError, ProgramError, a_type
from kleene.machines.kinds import MAX_VALUES
from kleene.machines.program import Program, ProgramClass


def library_programs() -> dict[str, Any]:
    """Map names to the programs of the library. Programs with parameters are functions."""
    every = {name: getattr(library, name) for name in library.__all__}
    return {name: made for name, made in every.items() if isinstance(made, ProgramClass) or inspect.isfunction(made)}


def find_program(name: str, wanted: str = "program") -> ProgramClass:
    """Find a program by name: `addition`, `sort:length=20`, `file.py:Name` or `file.rasp:name:vocab=abc,length=10`.

    - `wanted`: what the name could have been, for the message where there is no such program.
    """
    in_file = re.fullmatch(r"(?P<path>.+\.py)(?::(?P<name>[^:]*))?(?::(?P<parameters>[^:]*))?", name)
    if in_file is not None:
        path, inside = in_file["path"], in_file["name"]
        return _made(f"{path}:{inside}", _from_file(path, inside), in_file["parameters"] or "")
    in_rasp = re.fullmatch(r"(?P<path>.+\.rasp)(?::(?P<name>[^:=]*))?(?::(?P<parameters>.*))?", name)
    if in_rasp is not None:
        return _from_rasp(in_rasp["path"], in_rasp["name"], in_rasp["parameters"] or "")
    plain, _, parameters = name.partition(":")
    programs = library_programs()
    if plain in programs:
        return _made(plain, programs[plain], parameters)
    if "/" in plain or Path(plain).exists():
        raise FileError(f"{plain}: not a program; give a Python file and a name in it, as path/to/file.py:Name")
    raise InputError(f"there is no {wanted} '{plain}'; {_in_python(name) or _hint(plain, programs)}")


def _in_python(name: str) -> str:
    """What somebody meant by `file:Name`, `file.Name` or `file` where there is a file `file.py`."""
    for path, inside in ((name, ""), name.rpartition(":")[::2], name.rpartition(".")[::2]):
        if path and Path(f"{path}.py").is_file():
            return f"did you mean {path}.py{f':{inside}' if inside else ''}?"
    return ""


def _hint(name: str, programs: Mapping[str, Any]) -> str:
    """What somebody may have meant by a name that is none."""
    from kleene.library.turing_machines import MACHINES as TURING

    close = difflib.get_close_matches(name, [*programs, *TURING], n=2, cutoff=0.6)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return "a program comes before its input; 'kleene list' shows all"


RASP_PARAMETERS = re.compile(r"(vocab|length|causal)=(.*?)(?=,(?:vocab|length|causal)=|$)", re.DOTALL)
DEFAULT_RASP_LENGTH = 10


def _from_rasp(path: str, name: str | None, parameters: str) -> ProgramClass:
    """The program of an s-op in a RASP text. `vocab` lists characters, or words with spaces between them."""
    from kleene.rasp import parse_file, to_program
    from kleene.rasp.expressions import SOp

    given = {key: value for key, value in RASP_PARAMETERS.findall(parameters)}
    if ",".join(f"{key}={value}" for key, value in given.items()) != parameters:
        raise InputError(f"{path}: '{parameters}' is not vocab=…,length=…,causal=True")
    file = parse_file(path)
    sop = file[name] if name else file.main
    if not isinstance(sop, SOp):
        raise InputError(f"{path}: '{name}' is not an s-op; it has {', '.join(file.sops) or 'none'}")
    if "vocab" not in given:
        raise InputError(f"{path}: give the tokens, as in {path}:{sop.name}:vocab=abc,length=10")
    size, causal = given.get("length", str(DEFAULT_RASP_LENGTH)), given.get("causal", "False")
    if not size.isdigit() or causal not in ("True", "False"):
        raise InputError(f"{path}: '{parameters}': length is a whole number, and causal is True or False")
    words = given["vocab"].split() if " " in given["vocab"].strip() else list(given["vocab"])
    return to_program(sop, vocab=words, max_seq_len=int(size), causal=causal == "True")


def _made(name: str, found: Any, parameters: str) -> ProgramClass:
    """Return a program, or call its function with parameters such as `length=20,values=10`."""
    if isinstance(found, ProgramClass):
        if parameters:
            raise InputError(f"{name}:{parameters}: {name} takes no parameters")
        return found
    known = inspect.signature(found).parameters
    given = dict(_parameter(name, part, known) for part in parameters.split(",") if part.strip())
    for parameter in given:
        if parameter not in known:
            takes = f"it takes {', '.join(known)}" if known else "it takes none"
            raise InputError(f"{name}: there is no parameter '{parameter}'; {takes}")
    missing = [key for key, p in known.items() if p.default is p.empty and key not in given]
    if missing:
        raise InputError(f"{name}: the parameter '{missing[0]}' is missing; give it as {name}:{missing[0]}=20")
    try:
        made = found(**given)
    except KleeneError:
        raise
    except Exception as error:
        raise ProgramError(
            f"{name}: raises {type(error).__name__}: {error} for {parameters or 'its defaults'}"
        ) from None
    if not isinstance(made, ProgramClass):
        raise ProgramError(f"{name}: gives {a_type(made)}, not a program (a class made from kl.Program)")
    return made


def _parameter(name: str, part: str, known: Mapping[str, inspect.Parameter]) -> tuple[str, int | str | bool]:
    key, _, value = (piece.strip() for piece in part.partition("="))
    default = known[key].default if key in known else None
    if isinstance(default, bool) and value in ("True", "False"):
        return key, value == "True"
    if isinstance(default, str):
        return key, value
    try:
        number = int(value)
    except ValueError:
        raise InputError(
            f"{name}: the parameter '{part.strip()}' is not name=whole number, such as length=20"
        ) from None
    if abs(number) > MAX_VALUES:
        raise InputError(f"{name}: the parameter {part.strip()} is out of range; {MAX_VALUES:,} is the largest")
    return key, number


def _from_file(path: str, name: str | None) -> Any:
    """Find `name` in a Python file of the user. This runs the file, which is the user's own code."""
    module = _imported(Path(path))
    programs = [key for key, thing in vars(module).items() if isinstance(thing, ProgramClass) and thing is not Program]
    makers = [key for key, t in vars(module).items() if inspect.isfunction(t) and t.__module__ == module.__name__]
    offered = ", ".join([*programs, *makers])
    if not offered:
        raise InputError(f"{path}: holds no program; a program is a class made from kl.Program")
    if not name and len(programs) == 1 and not makers:
        return vars(module)[programs[0]]
    if not name:
        raise InputError(f"{path}: say which program, as {path}:Name; it has: {offered}")
    found = vars(module).get(name)
    if found is None:
        raise InputError(f"{path}: has no program '{name}'; it has: {offered}")
    if not isinstance(found, ProgramClass) and not inspect.isfunction(found):
        raise InputError(f"{path}:{name}: not a program (a class made from kl.Program, or a function making one)")
    return found


def _imported(path: Path) -> Any:
    if not path.is_file():
        raise FileError(f"{path}: no such file")
    spec = importlib.util.spec_from_file_location(f"kleene_file_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    sys.path.insert(0, str(path.parent.resolve()))  # as for a script: it can import its neighbours
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        line = f", line {error.lineno}" if error.lineno else ""
        raise FileError(f"{path}: not Python ({error.msg}{line})") from None
    except KleeneError as error:
        raise ProgramError(f"{path}: {error}") from None
    except (Exception, SystemExit) as error:
        raise FileError(f"{path}: raises {type(error).__name__}: {error} when it is imported") from None
    finally:
        sys.path.pop(0)
    return module


MACHINES = (".att", ".fst", ".mata", ".ba", ".regex", ".re", ".yaml", ".yml", ".tm", ".bb", ".json", ".jff", ".jflap")


PATTERN = re.compile(r"[()|*\[\]\\]")  # no program's name, and no Turing machine's, has one of these


def find_machine(name: str) -> Any:
    """Read the machine in a file, a Turing machine by name, bbchallenge text or a pattern; None for other names.

    A nondeterministic automaton is made deterministic: everything that takes a machine's name can take it then.
    """
    path = Path(name)
    if path.suffix not in MACHINES and not _is_text_of_machine(path):
        return None if path.exists() else turing_machine(name) or _automaton_of_pattern(name)
    from kleene.machines.automata.nfa import NFA
    from kleene.machines.files import read_machine

    machine = read_machine(path)
    return machine.determinise().minimise() if isinstance(machine, NFA) else machine


def _is_text_of_machine(path: Path) -> bool:
    """Whether this is a text file that holds a machine; another text could be anything."""
    from kleene.machines.files import text_has_machine

    return path.suffix == ".txt" and path.is_file() and text_has_machine(path)


def _automaton_of_pattern(name: str) -> Any:
    """The automaton of a regular expression such as `(a|b)*abb`; None for a name that is no pattern."""
    if PATTERN.search(name) is None or ".py" in name or ".rasp" in name or name.partition(":")[0] in library_programs():
        return None
    from kleene.machines.automata.regex import regex

    return regex(name).minimise()


def turing_machine(name: str) -> Any:
    """The Turing machine of the library with this name, or of this bbchallenge text; None if it is neither."""
    from kleene.library.turing_machines import MACHINES as TURING
    from kleene.machines.turing import TuringMachine
    from kleene.machines.turing_files import BBCHALLENGE

    if name in TURING:
        return TURING[name]()
    return TuringMachine.parse(name) if BBCHALLENGE.fullmatch(name) else None


def find_source(name: str, wanted: str = "program") -> Any:
    """Find the machine of this file or name, or the program of this name."""
    machine = find_machine(name)
    return find_program(name, wanted) if machine is None else machine


def is_folder(name: str) -> bool:
    """Whether a name is the folder of a saved network. Reject a path that is neither that nor a file."""
    path = Path(name)
    if (path / "kleene.json").exists():
        return True
    if name.partition(":")[0] in library_programs():
        return False
    if path.is_dir() or (
        "/" in name and ".py" not in name and ".rasp" not in name and path.suffix not in MACHINES and not path.exists()
    ):
        what = "not a saved network" if path.is_dir() else "no such folder"
        raise FileError(f"{name}: {what}; a saved network is a folder with kleene.json in it")
    return False


def find_network(name: str, quiet: bool = False) -> Any:
    """Load a network from a folder, or compile it from a machine's file or a program."""
    if is_folder(name):
        return verbs.load(name)
    machine = find_source(name, "folder or program")
    with busy(f"compiling {name}", quiet):
        return verbs.compile(machine)


NUMBERS = re.compile(r"\s*-?\d+(?:[\s,]+-?\d+)*\s*")


def read_tokens(machine: Any, text: str) -> list[int]:
    """Read an input: tokens as `[2,1,0]`, or text for the program's `encode`, or whole numbers."""
    named = getattr(machine, "spec", None) or getattr(machine, "config", None)
    name = str(getattr(named, "name", None) or getattr(machine, "name", "the network"))
    listed = text.strip()
    encode, declared = getattr(machine, "encode", None), getattr(getattr(machine, "spec", None), "text", None)
    if listed[:1] == "[" and listed[-1:] == "]" and NUMBERS.fullmatch(listed[1:-1]):
        return [int(word) for word in listed[1:-1].replace(",", " ").split()]
    if encode is not None and (isinstance(machine, ProgramClass) or _names_tokens(machine)):
        return _encoded(name, encode, text, "" if declared is None else declared.plain(text))
    if declared is not None:
        return _encoded(name, lambda given: declared.encode(given, name), text)
    if not listed or listed == "[]":
        return []
    if not NUMBERS.fullmatch(listed):
        raise InputError(f"{name}: the input '{text}' is not a list of whole numbers such as 2 1 0 or [2,1,0]")
    return [int(word) for word in listed.replace(",", " ").split()]


def _names_tokens(network: Any) -> bool:
    """Whether a network has names for its tokens: a text, a vocabulary, or symbols that are more than numbers."""
    if getattr(network, "text", None) is not None or "vocabulary" in getattr(network, "description", ()):
        return True
    symbols = getattr(network, "symbols", None)
    return symbols is not None and list(symbols) != [str(token) for token in range(len(symbols))]


def read_word(machine: Any, arguments: Sequence[str]) -> str | list[str]:
    """Read arguments as a word of an automaton, a Turing machine or their RNN.

    The symbols are the characters, or the parts between spaces if the alphabet has longer symbols.
    """
    from kleene.networks.rnn.decider import END, NUL

    letters = {*(machine.input_alphabet if hasattr(machine, "input_alphabet") else machine.alphabet)} - {END, NUL}
    if all(len(symbol) == 1 for symbol in letters):
        return (" " if " " in letters else "").join(arguments)
    return " ".join(arguments).split()


def _encoded(name: str, encode: Callable[[str], Sequence[int]], text: str, plain: str = "") -> list[int]:
    """The tokens of a text. `plain`: the text without the marks that pages and traces show, such as ^ and =."""
    try:
        return list(encode(text))
    except KleeneError as error:
        if plain and plain != text:
            with suppress(KleeneError):
                return list(encode(plain))
        raise InputError(f"{name}: {str(error).removeprefix(f'{name}: ')}; write tokens as [2,1,0]") from None
    except Exception as error:
        raise InputError(f"{name}: encode raises {type(error).__name__}: {error} for the input '{text}'") from None


def joined(words: list[str]) -> str:
    """Join the words of an input to one text."""
    for word in words:
        if re.match(r"--?[A-Za-z]", word):
            raise InputError(f"{word}: no such option; --help lists the options")
    return " ".join(words)


def answer(machine: Any, outputs: list[int]) -> Any:
    """Decode the outputs with the program's `decode`, or by the network's alphabet; None if neither can."""
    if not isinstance(machine, ProgramClass) and getattr(outputs, "text", None) is not None:
        return outputs.text  # type: ignore[attr-defined]
    decode = getattr(machine, "decode", None)
    try:
        return getattr(outputs, "text", None) if decode is None else decode(outputs)
    except Exception:  # `encode` would not make an input with these outputs
        return None
