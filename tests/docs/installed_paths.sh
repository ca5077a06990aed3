#!/usr/bin/env bash
# Tests that an installed tree has what it names: the files that the program's first page, its help, its messages and the
# recipes' comments name, and the targets of links between documents.
#   installed_paths.sh BUILD
set -euo pipefail
build=$(cd "$1" && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
fail() { printf 'installed_paths.sh: %s\n' "$*" >&2; exit 1; }
prefix=$place/opt
cmake --install "$build" --prefix "$prefix" >"$place/install.log" || fail "$(cat "$place/install.log")"
export XDG_DATA_HOME=$place/data
mkdir "$place/user"
cd "$place/user"
hekla=$prefix/bin/hekla

# The first page names files of the installation.
"$hekla" >first
names=$(grep -o "$prefix/[^ ]*" first)
[ "$(wc -l <<<"$names")" -ge 2 ] || fail "the first page names too few files: $(cat first)"
for name in $names; do [ -e "$name" ] || fail "the first page names $name, which does not exist"; done
# Its training works: the quickstart with another text, as it is printed.
seq 4000 >TEXT.txt
command=$(sed -n 's/^First training: hekla //p' first)
XDG_CACHE_HOME=$build/tests_docs_cache "$hekla" $command train.max_steps=1 train.eval_steps=0 tokenizer.vocab_size=260 >log 2>&1 ||
  fail "$command: $(cat log)"

# The message for a model that is not supported names documents that exist.
mkdir model
echo '{"model_type": "unheard-of"}' >model/config.json
cp "$(find out -name model.safetensors | head -n 1)" model/
if "$hekla" inspect model >log 2>&1; then fail "inspect accepts an unknown model_type"; fi
names=$(grep -o "$prefix/[^ ]*" log) || fail "no document is named: $(cat log)"
for name in $names; do [ -e "$name" ] || fail "a message names $name, which does not exist"; done
# The tasks that come with Hekla.
"$hekla" eval --tasks list >log || fail "eval --tasks list"
grep -q copying log || fail "eval --tasks list: $(cat log)"

# Neither help, nor the manual page, nor recipes and tasks name paths of a checkout.
"$hekla" --help >help
for verb in $("$hekla" reference markdown | sed -n 's/^## hekla //p' | tr ' ' _); do "$hekla" ${verb//_/ } --help >>help; done
checkout='(^|[ "(`=])(build/bin|apps|tests|engine|third_party|plugins/[A-Z])[/a-z*]'
sed -n '/^#/p' "$prefix"/share/hekla/recipes/*.toml "$prefix"/share/hekla/tasks/*.toml >comments
if grep -nE "$checkout" help comments "$prefix/share/man/man1/hekla.1" | grep -v '[a-z] checkout' >log; then
  fail "paths of a checkout: $(cat log)"
fi
grep -oEh '\brecipes/[A-Za-z0-9_.-]*[a-z]' "$prefix"/share/hekla/recipes/*.toml "$prefix"/share/hekla/tasks/* | sort -u >names
[ "$(wc -l <names)" -ge 30 ] || fail "recipes name only $(wc -l <names) files"
while IFS= read -r name; do
  [ "$name" != recipes/grpo-arithmetic ] || continue # a pattern
  [ -e "$prefix/share/hekla/$name" ] || fail "a recipe names $name, which is not in share/hekla"
done <names

# Links between documents.
links=0
while IFS= read -r document; do
  for target in $(awk '/^ *```/ { code = !code } !code' "$document" | grep -oE '\]\([^)#:]+[)#]' | sed -E 's/^\]\(//; s/[)#]$//'); do
    [ -e "$(dirname "$document")/$target" ] || fail "$document: $target does not exist"
    links=$((links + 1))
  done
done < <(find "$prefix/share" -name '*.md')
[ "$links" -ge 200 ] || fail "only $links links were found"
printf '%d links\n' "$links"
