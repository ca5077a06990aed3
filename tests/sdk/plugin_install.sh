#!/usr/bin/env bash
# Tests how plugins are given away: two plugins, of which one needs the other, are installed from sources, from archives and
# from an index, updated and uninstalled; what must be refused is refused, and changes nothing.
#   plugin_install.sh BUILD_FOLDER
set -euo pipefail
build=$(cd "$1" && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cmake --install "$build" --prefix "$place/hekla" >"$place/install.log"
export XDG_CACHE_HOME=$place/cache XDG_DATA_HOME=$place/data PATH=$place/hekla/bin:$PATH HEKLA=$place/hekla
installed=$place/data/hekla/plugins
platform=$(uname -s | tr A-Z a-z)-$(uname -m)
cd "$place"

logged() { # logged COMMAND...: prints the output of the command if it fails
  "$@" >log 2>&1 || { printf '%s failed:\n' "$*"; cat log; exit 1; }
}
refused() { # refused PATTERN COMMAND...: exit status 1, one error that matches, and the installed files stay as they are
  local pattern=$1 status=0 before after
  shift
  before=$(ls -l "$installed" 2>/dev/null || true)
  "$@" >out 2>error || status=$?
  after=$(ls -l "$installed" 2>/dev/null || true)
  if [ "$status" != 1 ] || [ "$(grep -c '^hekla: error: ' error)" != 1 ] || ! grep -qE -- "$pattern" error || [ "$before" != "$after" ]; then
    printf 'expected the error "%s" of %s; exit status %s:\n' "$pattern" "$*" "$status"
    cat out error
    exit 1
  fi
}
listed() { # listed NAME VERSION
  hekla plugin list >list.log
  grep -q " $1 $2, $installed/" list.log || { printf '%s %s is not listed\n' "$1" "$2"; tail -n 20 list.log; exit 1; }
}
set_version() { sed -i "s/\"version\": \"[0-9.]*\"/\"version\": \"$2\"/" "$1/manifest.json"; }

for name in first second; do logged hekla plugin new --lang c --kind objective "$name"; done
sed -i 's/"abi_minor_needed": 0,/"abi_minor_needed": 1,\n  "needs": [{"plugin": "first", "version": ">=0.1 <0.3"}],/' second/manifest.json

# Sources.
refused "plugin 'second' 0.1.0 needs the plugin first >=0.1 <0.3, which is not installed" hekla plugin install second
logged hekla plugin install first
listed first 0.1.0
[ ! -e first/build ]
refused "is installed already, as 0.1.0" hekla plugin install first
logged hekla plugin install second
listed second 0.1.0
refused "is needed by second: uninstall it first" hekla plugin uninstall first
hekla plugin list --json >list.json
grep -q '"needs":\[{"plugin":"first","version":">=0.1 <0.3"}\]' list.json

# Without the needed plugin, the other one is listed with the reason and refused when it is used.
mv "$installed/first.json" saved.json
hekla plugin list >list.log
grep -q "^cannot be used: plugin 'second' .* needs the plugin first >=0.1 <0.3, which is not installed" list.log
refused "needs the plugin first" hekla describe gpt2 --set n_layer=1 --head lm --objective second
mv saved.json "$installed/first.json"
logged hekla describe gpt2 --set n_layer=1 --head lm --objective second

# Updates.
set_version first 0.2.0
logged hekla plugin update first
listed first 0.2.0
[ "$(ls "$installed"/first-* | wc -l)" = 1 ]
set_version first 0.1.5
refused "is older than 0.2.0" hekla plugin update first
logged hekla plugin update first --force
listed first 0.1.5
set_version first 0.3.0
refused "is not a version that 'second' works with" hekla plugin update first
logged hekla plugin uninstall second
logged hekla plugin uninstall first
refused "no plugin 'first' is installed" hekla plugin uninstall first
refused "is not installed in .*, but in" hekla plugin uninstall lora
[ -z "$(ls "$installed")" ]

# Archives, as ci.sh writes them, and an index.
set_version first 0.2.0
mkdir index
for name in first second; do # the tests of the second need the first
  logged sh "$name/ci.sh"
  cp "$name"/build/*.zip index/
  [ "$name" = second ] || logged hekla plugin install index/first-0.2.0.zip
done
logged hekla plugin uninstall first
logged hekla plugin index index
logged hekla plugin install second --index index/index.json
listed first 0.2.0
listed second 0.1.0
logged hekla plugin uninstall second
logged hekla plugin uninstall first
logged hekla plugin install index/first-0.2.0.zip --index index/index.json
logged hekla plugin uninstall first
logged hekla plugin install index/first-0.2.0.zip --from-sources
logged hekla plugin uninstall first
refused "has no plugin 'frist'; did you mean 'first'" hekla plugin install frist --index index/index.json
refused "no version of the plugin 'first' <0.2 can be installed: 0.2.0 is not in the range" \
  hekla plugin install first --index index/index.json --range '<0.2'
sed 's/"archive": "first/"archive": "https:\/\/example.org\/first/' index/index.json >index/url.json
refused "curl -fLO https://example.org/first-0.2.0.zip, then hekla plugin install first-0.2.0.zip --index index/url.json" hekla plugin install first --index index/url.json
sed 's/"abi_minor_needed": 1/"abi_minor_needed": 99/' index/index.json >index/newer.json
refused "0.1.0 is for plugin ABI 1.99" hekla plugin install second --index index/newer.json
sed 's/"needs": \[\]/"needs": [{"plugin": "second", "version": ""}]/' index/index.json >index/circle.json
refused "plugins need each other in a circle: second -> first -> second" hekla plugin install second --index index/circle.json
sed 's/"sha256": "[0-9a-f]*"/"sha256": "none"/' index/index.json >index/hash.json
refused 'plugins\[0\].sha256: is .*, expected 64 digits' hekla plugin install first --index index/hash.json
printf '{"plugins": []}' >index/other.json
refused 'it is not an index of plugins' hekla plugin install first --index index/other.json
# An archive that is not what its entry has: another version, name, ABI, need or part.
for change in 's/"version": "0.2.0"/"version": "0.2.1"/' 's/"plugin": "first"/"plugin": "other"/' \
  's/"abi_minor_needed": 0/"abi_minor_needed": 1/' 's#"hekla.objective/1 first"#"hekla.head/1 first"#' \
  's/"needs": \[\]/"needs": [{"plugin": "lora", "version": ""}]/'; do
  sed "$change" index/index.json >index/differs.json
  if cmp -s index/index.json index/differs.json; then printf '%s changes nothing\n' "$change"; exit 1; fi
  name=first
  [ "$change" != 's/"plugin": "first"/"plugin": "other"/' ] || name=other
  refused "the archive is not what the index has for '$name' 0.2.[01]: .*; nothing was installed" \
    hekla plugin install $name --index index/differs.json
done
printf x >>index/first-0.2.0.zip
refused "its sha256 is [0-9a-f]*, and the index has" hekla plugin install first --index index/index.json
refused "has no archive with its sha256" hekla plugin install index/first-0.2.0.zip --index index/index.json

# A plugin that begins with a built-in one, whose sources are installed.
cp -r "$HEKLA/share/hekla/plugins/heads/regression" mine
mv mine/regression.cpp mine/mine.cpp
sed -i 's/"plugin": "regression"/"plugin": "mine"/; s/"id": "regression"/"id": "mine"/; s/"regression.so"/"mine.so"/' mine/manifest.json
sed -i 's/"regression"/"mine"/g' mine/mine.cpp
sed 's/first.c)/mine.cpp)/; s/first/mine/g; s/LANGUAGES C)/LANGUAGES CXX)/' first/CMakeLists.txt >mine/CMakeLists.txt
logged hekla plugin install mine --check 2
logged hekla plugin uninstall mine

# Archives that are not what they should be.
mkdir bad
(cd first && logged cmake -E tar cf ../bad/sources.zip --format=zip -- manifest.json first.c CMakeLists.txt)
LC_ALL=C sed 's#manifest.json#../ifest.json#g' bad/sources.zip >bad/outside.zip
refused "the entry '../ifest.json' would be written out of the folder" hekla plugin install bad/outside.zip
LC_ALL=C sed 's#manifest.json#/anifest.json#g' bad/sources.zip >bad/absolute.zip
refused "the entry '/anifest.json' would be written out of the folder" hekla plugin install bad/absolute.zip
[ ! -e ifest.json ] && [ ! -e /anifest.json ]
# Many files.
mkdir many
(cd many && for i in $(seq 9990); do echo "$i" >"$i"; done && logged cmake -E tar cf ../bad/many.zip --format=zip -- *)
refused 'bad/many.zip: has no plugin' hekla plugin install bad/many.zip
# An archive that another program empties while it is unpacked: what was read and hashed is what counts.
mkdir unpacked
(until compgen -G "$place/unpacked/hekla-*/1" >compgen.log; do :; done; : >bad/many.zip) &
refused 'bad/many.zip: has no plugin' env TMPDIR="$place/unpacked" hekla plugin install bad/many.zip
wait
[ ! -s bad/many.zip ]
head -c 400 bad/sources.zip >bad/short.zip
refused 'bad/short.zip: its zip archive cannot be read' hekla plugin install bad/short.zip
printf 'text' >bad/text.tar.gz
refused 'is not a zip archive; unpack it, and give the folder' hekla plugin install bad/text.tar.gz
refused 'does not exist; expected a folder or a zip archive' hekla plugin install bad/none.zip
mkdir bad/nothing
refused 'has no plugin; expected NAME.json with its library' hekla plugin install bad/nothing
mkdir -p "bad/elsewhere/plan9-mips"
cp first/build/plugins/first.* bad/elsewhere/plan9-mips/
refused "has no library for $platform; it has plan9-mips" hekla plugin install bad/elsewhere
mkdir bad/hash
cp first/build/plugins/first.* bad/hash/
printf x >>bad/hash/first.so
refused 'its sha256 is' hekla plugin install bad/hash
mkdir bad/promise
cp first/build/plugins/first.so bad/promise/
sed 's/"id": "first"/"id": "third"/' first/build/plugins/first.json >bad/promise/first.json
refused 'not installed, since . of its tests failed:' hekla plugin install bad/promise
cp -r first bad/broken
printf 'int broken(' >>bad/broken/first.c
refused 'cmake --build .* failed:' hekla plugin install bad/broken
sed 's/"abi_minor_needed": 1/"abi_minor_needed": 0/' second/manifest.json >bad/manifest.json
mkdir bad/old && cp second/build/plugins/second.so bad/old/ && cp bad/manifest.json bad/old/second.json
refused 'plugins may need others from plugin ABI 1.1 on' hekla plugin install bad/old
sed 's/>=0.1 <0.3/~0.1/' second/manifest.json >bad/old/second.json
refused "needs\[0\].version: '~0.1' is not a comparison" hekla plugin install bad/old
sed 's/"id": "first"/"id": "clm"/' first/build/plugins/first.json >bad/elsewhere/first.json
cp first/build/plugins/first.so bad/elsewhere/
refused "provides hekla.objective/1 'clm', as 'clm' does" hekla plugin install bad/elsewhere --check 0

printf 'plugins are installed, updated and uninstalled; bad ones are refused\n'
