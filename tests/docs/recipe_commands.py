#!/usr/bin/env python3
"""Runs the commands of the recipes, as their first comments print them, in a copy of the repository.

    recipe_commands.py BUILD short|long

A command is a line of a recipe's first comment that begins with three spaces and a program (a backslash at its end continues it).
Every other line with three spaces must be a comment of the shell, or a variant: a name and keys, which are added to the training
of the recipe.

short: without data. A command must succeed, or miss only an input that does not exist yet, so verbs, options and keys are right.
Each runs in a folder of its own: a training makes its output folder before it misses its data, and removes it after.
long: with small data and a small model in place of the downloaded one (stand_in_sets.py), and two steps for each training.
Commands run once, and after those that make what they read.
"""
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib

sys.dont_write_bytecode = True  # the sources stay as they are
import stand_in_sets

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ("build/bin/hekla", "apps/recipes/", "hf", "jq")
# What the long suite does not run, and why; each entry must occur in a recipe.
NOT_RUN: dict[str, str] = {}
LIMITS = ["train.max_steps=2", "train.per_device_train_batch_size=8", "train.eval_steps=2", "train.eval_batches=1",
          "train.save_steps=0"]


def fail(message: str) -> None:
    sys.exit(f"recipe_commands: {message}")


class Command:
    """A command, and the recipe that prints it."""

    def __init__(self, recipe: str, line: int, text: str) -> None:
        self.recipe, self.line = recipe, line
        self.text = re.sub(r"\s+# .*", "", text)
        self.words = shlex.split(self.text)

    def __str__(self) -> str:
        return f"{self.recipe}:{self.line}: {self.text}"


def header(text: str) -> list[str]:
    """The lines of the first comment, without their "# "."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line[2:] if line.startswith("# ") else line[1:])
    return lines


def commands_of(name: str, text: str) -> tuple[list[Command], list[str]]:
    """Returns the commands of a recipe, and the lines that are neither a command nor prose."""
    found: list[Command] = []
    unknown: list[str] = []
    continued = ""
    begin = 0
    for number, line in enumerate(header(text), 1):
        if continued:
            continued += " " + line.strip()
        elif line.startswith("  ") and line.strip():
            continued, begin = line.strip(), number
        else:
            continue
        if continued.endswith("\\"):
            continued = continued[:-1].rstrip()
            continue
        command, continued = continued, ""
        words = command.split()
        if command.startswith("#"):
            continue
        if words[0] in PROGRAMS or words[0].startswith(PROGRAMS[1]):
            found.append(Command(name, begin, command))
        elif len(words) > 1 and all(re.fullmatch(r"[a-z_]+\.[a-z_]+=\S+", word) for word in words[1:]):
            variant = f"build/bin/hekla train {name} {' '.join(words[1:])} output.dir=out/{words[0].lower()}"
            found.append(Command(name, begin, variant))
        else:
            unknown.append(f"{name}:{begin}: {command}")
    if continued:
        unknown.append(f"{name}:{begin}: {continued}: the last line ends with a backslash")
    return found, unknown


def test_reading() -> None:
    """Tests what is read as a command, and what is refused."""
    text = ("# A recipe.\n#\n#   build/bin/hekla train a.toml \\\n#     train.max_steps=2   # a comment\n#   # more\n#   Name  model.x=1\n"
            "#   sudo rm file\n#\n# Prose: train.x=1\nkey = 1\n#   hf download later\n")
    found, unknown = commands_of("a.toml", text)
    if [command.words for command in found] != [["build/bin/hekla", "train", "a.toml", "train.max_steps=2"],
                                                ["build/bin/hekla", "train", "a.toml", "model.x=1", "output.dir=out/name"]]:
        fail(f"the planted recipe has the commands {[str(command) for command in found]}")
    if unknown != ["a.toml:7: sudo rm file"]:
        fail(f"the planted recipe has the unknown lines {unknown}")
    if commands_of("a.toml", "#   hf download \\\n")[1] == []:
        fail("a command without its last line is accepted")


def all_commands() -> list[Command]:
    found: list[Command] = []
    for file in sorted((SOURCE / "apps/recipes").glob("*.toml")):
        commands, unknown = commands_of(f"apps/recipes/{file.name}", file.read_text())
        if unknown:
            fail("neither a command nor a variant: " + "; ".join(unknown))
        if not commands:
            fail(f"apps/recipes/{file.name} prints no command")
        found += commands
    texts = {command.text for command in found}
    if len(texts) < 60:
        fail(f"only {len(texts)} commands were found")
    if stale := set(NOT_RUN) - texts:
        fail(f"listed as not run, but no recipe prints it: {stale}")
    return found


def paths_in(values: object) -> set[str]:
    """The paths below out/ in a value of a recipe, or in a word."""
    if isinstance(values, dict):
        return set().union(*(paths_in(value) for value in values.values()), set())
    if isinstance(values, list):
        return set().union(*(paths_in(value) for value in values), set())
    return set(re.findall(r"\bout/[\w.-]+", values)) if isinstance(values, str) else set()


def reads_and_makes(command: Command) -> tuple[set[str], set[str]]:
    """Returns the paths below out/ that a command reads and makes."""
    reads: set[str] = set()
    makes: set[str] = set()
    if command.words[0] != "build/bin/hekla":
        return reads, makes
    recipe: dict = {}
    words = iter(command.words[1:])
    for word in words:
        if word in ("-o", "--output"):
            makes |= paths_in(next(words))
        elif word.startswith("apps/recipes/") and word.endswith(".toml"):
            recipe = tomllib.loads((SOURCE / word).read_text())
        elif word.startswith("output.dir="):
            recipe.setdefault("output", {})["dir"] = word.split("=", 1)[1]
        elif re.match(r"[a-z_.]+=", word):
            key, value = word.split("=", 1)
            section, _, name = key.partition(".")
            if isinstance(recipe.get(section), dict):
                recipe[section][name] = value
            reads |= paths_in(value)
        else:
            reads |= paths_in(word)
    own = paths_in(recipe.pop("output", {}))
    if "recipe" in recipe: # a ladder
        own = paths_in(recipe)
    if set(command.words) & {"--plan", "--list"}:
        reads |= paths_in(recipe)
    elif command.words[1] in ("train", "prune") or command.words[1:3] == ["scale", "run"]:
        makes |= own
        reads |= paths_in(recipe)
    elif recipe:
        reads |= own
    return reads, makes - reads


def in_order(commands: list[Command]) -> list[Command]:
    """Returns each command once, after the commands above it in its recipes and after those that make what it reads."""
    # A command that several recipes print is one; one that a recipe prints twice is two.
    first: dict[tuple[str, int], Command] = {}
    before: dict[tuple[str, int], set[tuple[str, int]]] = {}
    makers: dict[str, tuple[str, int]] = {}
    printed: collections.Counter[tuple[str, str]] = collections.Counter()
    above: dict[str, tuple[str, int]] = {}
    for command in commands:
        key = (command.text, printed[command.recipe, command.text])
        printed[command.recipe, command.text] += 1
        first.setdefault(key, command)
        before.setdefault(key, set())
        if command.recipe in above:
            before[key].add(above[command.recipe])
        above[command.recipe] = key
        for path in reads_and_makes(command)[1]:
            makers.setdefault(path, key)
    # Scripts that make data are first: make_corpora, then those that read its data.
    data = sorted((key for key in first if key[0].startswith("apps/recipes/make_")), key=lambda key: "corpora" not in key[0])
    for key, command in first.items():
        if key in data:
            before[key] = set(data[: data.index(key)])
            continue
        before[key] |= set(data) | {makers[path] for path in reads_and_makes(command)[0] if makers.get(path, key) != key}
    ordered: list[Command] = []
    state: dict[tuple[str, int], int] = {}

    def visit(key: tuple[str, int], path: list[str]) -> None:
        if state.get(key) == 2:
            return
        if state.get(key) == 1:
            fail("commands that wait for each other: " + " <- ".join([*path, key[0]]))
        state[key] = 1
        for other in sorted(before[key], key=list(first).index):
            visit(other, [*path, key[0]])
        state[key] = 2
        ordered.append(first[key])

    for key in first:
        visit(key, [])
    return ordered


def make_copy(place: pathlib.Path, build: pathlib.Path, limited: bool) -> pathlib.Path:
    """Creates the copy: sources that are also training text, recipes, and a script for the program that limits trainings."""
    copy = place / "hekla"
    (copy / "build/bin").mkdir(parents=True)
    for name in ("apps", "docs") + (("engine", "plugins", "shaders", "tests") if limited else ()):
        shutil.copytree(SOURCE / name, copy / name, ignore=shutil.ignore_patterns("fixtures", "__pycache__"))
    for file in SOURCE.glob("*.md"):
        shutil.copy(file, copy)
    (copy / "build/lib").symlink_to(build / "lib")
    program = copy / "build/bin/hekla"
    if not limited:
        program.symlink_to(build / "bin/hekla")
        return copy
    limits = " ".join(LIMITS)
    program.write_text(f"""#!/usr/bin/env bash
limits=()
case " $* " in
  *in-context-examples.toml*) ;; # makes no step
  *' train '*.toml* | *' eval '*.toml* | *' prune '*.toml* | *' frontier '*.toml*) limits=({limits}) ;;
esac
exec "{build}/bin/hekla" "$@" "${{limits[@]}}"
""")
    program.chmod(0o755)
    return copy


def run(command: Command, copy: pathlib.Path, environment: dict[str, str]) -> tuple[int, str]:
    # The text, not the words: what a reader's shell makes of it is part of the test.
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", command.text], cwd=copy, env=environment, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


MISSING = re.compile(r"^(hekla: error: |make_corpora: |Error: |jq: error: ).*(no such file|No such file|there is no folder|does not exist|no file matches|is not a folder here|is not trained yet)", re.MULTILINE)


def check_keys(build: pathlib.Path) -> None:
    """Keys that comments name (train.max_steps=200) exist, in sections whose keys are not those of plugins."""
    listed = subprocess.run([build / "bin/hekla", "recipe", "keys", "--json"], check=True, capture_output=True, text=True)
    known = {(row["section"], row["key"]) for row in json.loads(listed.stdout)}
    sections = {"train", "data", "tokenizer", "teacher", "prune", "generate", "rollout", "output"}
    found = 0
    for file in sorted((SOURCE / "apps/recipes").glob("*.toml")):
        for line in file.read_text().splitlines():
            for section, key in re.findall(r"\b([a-z]+)\.([a-z_]+)=", line.partition("#")[2]):
                found += section in sections
                if section in sections and (section, key) not in known:
                    fail(f"{file.name}: a comment names {section}.{key}, which is not a key of recipes")
    if found < 20:
        fail(f"comments name only {found} keys")


def short(commands: list[Command], build: pathlib.Path, place: pathlib.Path) -> None:
    copy = make_copy(place, build, limited=False)
    texts = list({command.text: command for command in commands if command.words[0] == "build/bin/hekla"}.values())
    environment = dict(os.environ)
    failures = []
    check_keys(build)

    def run_alone(command: Command) -> tuple[int, str]:
        with tempfile.TemporaryDirectory(dir=place) as own:
            for entry in copy.iterdir():
                (pathlib.Path(own) / entry.name).symlink_to(entry)
            return run(command, pathlib.Path(own), environment)

    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as workers:
        for command, (status, output) in zip(texts, workers.map(run_alone, texts)):
            if status != 0 and not (status == 1 and MISSING.search(output)):
                failures.append(f"{command}\nends with status {status}; expected success, or a missing input:\n{output}")
    if failures:
        fail("\n".join(failures))
    print(f"{len(texts)} commands")


def long(commands: list[Command], build: pathlib.Path, place: pathlib.Path) -> None:
    copy = make_copy(place, build, limited=True)
    stand_in_sets.write_sets(copy / "SETS", SOURCE)
    stand_in_sets.write_downloads(copy, SOURCE)
    environment = dict(os.environ, XDG_CACHE_HOME=str(build / "tests_docs_cache"), XDG_DATA_HOME=str(place / "data"),
                       GALLIVM_PERF="nopt", PATH=f"{place / 'bin'}:{os.environ['PATH']}")
    model = stand_in_sets.make_model(place / "model", str(build / "bin/hekla"), SOURCE)
    (copy / "models/gpt2").mkdir(parents=True)
    for name in ("vocab.json", "merges.txt", "tokenizer.json"):
        if (model / name).exists():
            shutil.copy(model / name, copy / "models/gpt2")
    # `hf download NAME --local-dir FOLDER` copies the small model.
    (place / "bin").mkdir()
    download = place / "bin/hf"
    download.write_text(f"""#!/usr/bin/env bash
[[ $# = 4 && $1 = download && $3 = --local-dir ]] || {{ printf 'hf: %s\\n' "$*" >&2; exit 2; }}
cp -r "{model}" "$4"
""")
    download.chmod(0o755)
    # The ladder has a hundredth of its bytes.
    ladder = copy / "apps/recipes/ladder.toml"
    ladder.write_text(re.sub(r"^tokens = \[([\d_]+)_000\]", r"tokens = [\g<1>0]", ladder.read_text(), flags=re.MULTILINE))
    ordered = in_order(commands)
    for command in ordered:
        if command.text in NOT_RUN:
            continue
        print(f"== {command}", flush=True)
        status, output = run(command, copy, environment)
        if status != 0:
            fail(f"{command}\nends with status {status}:\n{output}")
    print(f"{len(ordered)} commands, {len(NOT_RUN)} of them not run")


def main() -> None:
    if len(sys.argv) != 3 or sys.argv[2] not in ("short", "long"):
        sys.exit(__doc__)
    build = pathlib.Path(sys.argv[1]).resolve()
    test_reading()
    commands = all_commands()
    with tempfile.TemporaryDirectory() as place:
        (short if sys.argv[2] == "short" else long)(commands, build, pathlib.Path(place))


if __name__ == "__main__":
    main()
