#!/usr/bin/env bash
# Runs the commands of the documents, as they are printed, in a copy of the repository:
#   commands.sh BUILD short|long
#
# Commands are in fenced blocks. The words after the backticks are the block's marks:
#   sh                   run in both suites
#   sh long              run in the long suite only
#   sh not-run: REASON   never run; the reason is required
#   LANGUAGE FILE        the block is written to FILE
# All blocks of a document run in one shell, in order. /opt/hekla means an installed Hekla.
#
# short: the copy has only a part of the sources (which are also training text), and hekla is a script that limits
# trainings to a few steps. long: everything as printed.
set -euo pipefail
build=$(cd "$1" && pwd)
mode=$2
source=$(cd "$(dirname "$0")/../.." && pwd)
[[ $mode = short || $mode = long ]] || { printf 'commands.sh: %s is neither short nor long\n' "$mode" >&2; exit 2; }
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
fail() { printf 'commands.sh: %s\n' "$*" >&2; exit 1; }

# extract NAME MODE: converts the document NAME on standard input to NAME.sh and files below $place/files, by these
# rules.
extract() {
  awk -v name="$1" -v mode="$2" -v script="$place/script" -v files="$place/files" '
    function stop(message) { printf "%s:%d: %s\n", name, NR, message > "/dev/stderr"; failed = 1; exit 1 }
    /^ *```/ && inside { inside = 0; if (file != "") print "HEKLA_FILE" > script; file = ""; next }
    /^ *```/ {
      inside = 1; run = 0; file = ""; begin = NR
      marks = $0; sub(/^ *```/, "", marks)
      if (marks ~ /^sh( |$)/) {
        if (marks == "sh" || (marks == "sh long" && mode == "long")) run = 1
        else if (marks == "sh long") run = 0
        else if (marks !~ /^sh not-run: .+/) stop("unknown marks of a block of commands: " marks)
        if (run) printf "printf \"%%s\\n\" \"== %s:%d\" >&2\n", name, NR > script
      } else if (marks ~ /^(bash|shell|console|zsh)( |$)/) {
        stop("a block of commands is marked sh, not " marks)
      } else if (split(marks, words, " ") == 2) {
        file = words[2]
        printf "mkdir -p \"$(dirname \"%s\")\" && cat >\"%s\" <<\"HEKLA_FILE\"\n", file, file > script
      }
      next
    }
    !inside && /^(    |\t)[^ ]/ && (before == "" || code) { stop("an indented block of code: write a fenced block") }
    { code = !inside && /^(    |\t)/; before = $0 }
    inside && (run || file != "") { print > script }
    END { if (!failed && inside) { NR = begin; stop("the block is not closed") } }
  '
}

# run_document NAME: runs its commands in the copy.
run_document() {
  : >"$place/script"
  extract "$1" "$mode" <"$source/$1" || fail "$1 cannot be read"
  grep -q '^printf .* "== ' "$place/script" || return 0
  if grep -q /opt/hekla "$place/script"; then
    [ -e "$place/opt" ] || cmake --install "$build" --prefix "$place/opt" >"$place/install.log" || fail "$(cat "$place/install.log")"
    sed -i "s#/opt/hekla#$place/opt#g" "$place/script"
  fi
  local begin=$SECONDS
  (cd "$place/hekla" && bash -euo pipefail "$place/script" >"$place/log" 2>&1) || { cat "$place/log"; fail "a command of $1 failed"; }
  printf '%s: %d blocks, %d s\n' "$1" "$(grep -c '^== ' "$place/log")" $((SECONDS - begin))
}

# Tests the extraction: what runs, what is written, and what is rejected.
planted() { # planted EXPECTED_STATUS TEXT
  local status=0
  : >"$place/script"
  printf '%b' "$2" | extract planted short 2>/dev/null || status=$?
  [ "$status" = "$1" ] || fail "a planted document ends with status $status, expected $1: $2"
}
planted 0 'x\n\n```sh\necho runs\n```\n\n```sh long\necho long\n```\n\n```sh not-run: a GPU\necho never\n```\n\n```toml a/b.toml\nk = 1\n```\n'
[ "$(cd "$place" && bash "$place/script" 2>/dev/null)" = runs ] || fail "the wrong blocks run: $(cat "$place/script")"
[ "$(cat "$place/a/b.toml")" = 'k = 1' ] || fail "the block of a file is not written"
planted 1 '```sh not-run:\necho\n```\n'
planted 1 '```sh quickly\necho\n```\n'
planted 1 '```bash\necho\n```\n'
planted 1 '```sh\necho\n'
planted 1 'text\n\n    hekla train recipe.toml\n'

# Creates the copy, its build folder and, in the short suite, a script for the program.
mkdir -p "$place/hekla/build/bin"
cd "$source"
# Compiled kernels are kept in the build folder; the short suite also tells the CPU driver to compile faster and run slower.
export XDG_CACHE_HOME=$build/tests_docs_cache XDG_DATA_HOME=$place/data
[ "$mode" = long ] || export GALLIVM_PERF=nopt
if [ "$mode" = long ]; then
  for entry in *; do
    case $entry in build | build-* | out | data) ;; *) cp -r "$entry" "$place/hekla/" ;; esac
  done
  ln -s "$build/bin/hekla" "$place/hekla/build/bin/hekla"
else
  cp -r ./*.md LICENSE docs "$place/hekla/"
  mkdir -p "$place/hekla/engine" "$place/hekla/tests" "$place/hekla/plugins"
  cp -r engine/base engine/graph engine/include engine/score "$place/hekla/engine/"
  cp -r tests/base "$place/hekla/tests/"
  cp -r plugins/*.md plugins/reference plugins/sdk plugins/heads "$place/hekla/plugins/"
  cp -r apps shaders "$place/hekla/"
  ln -s "$source/tests/fixtures" "$place/hekla/tests/fixtures"
  cat >"$place/hekla/build/bin/hekla" <<SCRIPT
#!/usr/bin/env bash
# Limits trainings and evaluations of recipes; everything else is unchanged.
limits=()
case " \$* " in
  *' train '*.toml* | *' eval '*.toml* | *' batches '*.toml*)
    limits=(train.max_steps=6 train.eval_steps=3 train.eval_batches=1 train.save_steps=0) ;;
esac
exec "$build/bin/hekla" "\$@" "\${limits[@]}"
SCRIPT
  chmod +x "$place/hekla/build/bin/hekla"
fi
ln -s "$build/lib" "$place/hekla/build/lib"
for program in observatory generate_abi; do
  [ ! -e "$build/bin/$program" ] || ln -s "$build/bin/$program" "$place/hekla/build/bin/$program"
done

# The output of apps/quickstart: the documents use its model.
(cd "$place/hekla" && build/bin/hekla train apps/recipes/quickstart.toml >"$place/log" 2>&1) || { cat "$place/log"; fail "the quickstart's training failed"; }
# The comparison with PyTorch needs PyTorch, and reports an error without it.
if (cd "$place/hekla" && PYTHON=false apps/compare_pytorch >"$place/log" 2>&1); then fail "compare_pytorch succeeds without PyTorch"; fi
grep -q 'PyTorch is not available' "$place/log" || fail "compare_pytorch without PyTorch: $(cat "$place/log")"
# sdk_guide runs plugins/README.md, in an empty folder. docs/cli.md and docs/recipes.md are generated from the program,
# and compared by their own tests: their examples are those of --help, with models of the reader.
for document in README.md docs/*.md apps/*/README.md plugins/GRAPHS.md plugins/DEBUGGING.md; do
  case $document in docs/cli.md | docs/recipes.md) continue ;; esac
  run_document "$document"
done
