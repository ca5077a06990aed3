#!/usr/bin/env bash
# Installs a release in a bare system and runs the commands that README.md prints: roots.sh FILES SYSTEM [FOLDER]
# FILES: what tools/release has made. SYSTEM: debian-12, debian-13 or ubuntu-24.04, made by debootstrap, with a Vulkan driver
# and without a compiler. FOLDER: where the system is made, and kept for the next time; default: a temporary folder.
# Debian comes from the mirror that this system uses, Ubuntu from HEKLA_UBUNTU_MIRROR (http://HOST/ubuntu).
# Skipped (77) without root, debootstrap, keys, a mirror, or a release.
set -euo pipefail
export LC_ALL=C
tests=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$tests/../.." && pwd)
fail() { printf 'roots.sh: %s\n' "$*" >&2; exit 1; }
skip() { printf 'skipped: %s\n' "$*"; exit 77; }

[ $# -ge 2 ] || { printf 'usage: roots.sh FILES SYSTEM [FOLDER]\n' >&2; exit 2; }
files=$(realpath "$1")
system=$2
script=
case $system in
  debian-12) suite=bookworm keys=debian-archive-keyring ;;
  debian-13) suite=trixie keys=debian-archive-keyring ;;
  ubuntu-24.04) suite=noble keys=ubuntu-archive-keyring script=/usr/share/debootstrap/scripts/gutsy ;;
  *) fail "unknown system '$system', expected debian-12, debian-13 or ubuntu-24.04" ;;
esac
case $system in
  debian-*) mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Codename: bookworm' 'Component: main' |
    sort -u | sed -n 1p) || mirror= ;;
  *) mirror=${HEKLA_UBUNTU_MIRROR:-} ;;
esac
[ -n "$mirror" ] || skip "no mirror for $system: Debian comes from this system's own mirror, Ubuntu from the one that HEKLA_UBUNTU_MIRROR names"
[ -e "$files/SHA256SUMS" ] || skip "$files has no release: the test release_twice makes it"
[ "$(id -u)" = 0 ] || skip 'making a root needs to be root'
command -v debootstrap >/dev/null || skip 'debootstrap is not installed: third_party/install --packages'
[ -e "/usr/share/keyrings/$keys.gpg" ] || skip "there is no /usr/share/keyrings/$keys.gpg: install $keys (ubuntu-keyring is in bookworm-backports)"
timeout 30 bash -c "exec 3<>/dev/tcp/$(cut -d/ -f3 <<<"$mirror")/80" 2>/dev/null || skip "$mirror cannot be reached"
# Mounts are seen by this process and its children only, and end with them.
[ -n "${HEKLA_ROOTS_MOUNTS:-}" ] || HEKLA_ROOTS_MOUNTS=1 exec unshare --mount "$0" "$@"

work=$(mktemp -d)
root=${3:-$work/root}
trap 'umount --recursive --lazy "$root/proc" "$root/dev" 2>/dev/null || true; rm -rf --one-file-system "$work"' EXIT
quietly() { "$@" >"$work/log" 2>&1 || { tail -n 30 "$work/log" >&2; fail "this command failed: $*"; }; }
if [ ! -e "$root/made" ]; then
  quietly debootstrap --variant=minbase --keyring="/usr/share/keyrings/$keys.gpg" $suite "$root" $mirror $script
  case $system in
    debian-12) echo "deb $mirror $suite-backports main" ;;
    debian-13) ;;
    *) printf 'deb %s %s main universe\n' "$mirror" $suite "$mirror" $suite-updates ;;
  esac >>"$root/etc/apt/sources.list"
  touch "$root/made"
fi
mount --bind /proc "$root/proc"
mount --rbind /dev "$root/dev" && mount --make-rslave "$root/dev"
cp /etc/resolv.conf "$root/etc/resolv.conf"
echo 'APT::Get::Assume-Yes "true";' >"$root/etc/apt/apt.conf.d/assume-yes"
inside() { env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive "$@"; }
quietly inside chroot "$root" apt-get update
# A machine with a driver: on Debian 12 the one that README.md names.
driver=(mesa-vulkan-drivers)
[ "$system" != debian-12 ] || driver+=(-t bookworm-backports)
quietly inside chroot "$root" apt-get install --no-install-recommends libvulkan1 "${driver[@]}"
for program in cc gcc g++ glslc cmake python3; do
  ! inside chroot "$root" sh -c "command -v $program" >/dev/null || fail "the root is not bare: it has $program"
done
inside chroot "$root" id someone >/dev/null 2>&1 || quietly inside chroot "$root" useradd --create-home --shell /bin/bash someone

# The blocks of README.md that this test runs.
awk -v folder="$work" '
  /^```sh not-run: the files of a release; tests\/release / { inside = 1; file = folder "/block" ++blocks; next }
  /^```/ { inside = 0 }
  inside { print >file }' "$source/README.md"
[ "$(cd "$work" && echo block*)" = 'block1 block2' ] || fail 'README.md has other blocks than the archive and the package'
sudo=$(grep -c '^sudo ' "$work/block2") || fail 'the second block installs nothing'
[ "$sudo" = 1 ] || fail 'the second block has more than one line for root'

# as_user SCRIPT: runs it as a user, without a network, in a folder whose name has a space.
home='/home/someone/a folder'
as_user() {
  cp "$1" "$root/script" && chmod 755 "$root/script"
  inside HOME=/home/someone unshare --net chroot --userspec=someone "$root" bash -euo pipefail -c "cd '$home' && . /script" \
    >"$work/said" 2>"$work/errors" || { cat "$work/said" "$work/errors" >&2; fail "$system: a command of $1 failed"; }
}
rm -rf "$root$home" "$root/home/someone/.cache"
mkdir -p "$root$home"
cp "$files"/*.tar.gz "$files"/*.deb "$root$home"
chown -R --reference="$root/home/someone" "$root$home"

# 1. The archive.
begin=$SECONDS
as_user "$work/block1"
grep -q 'llvmpipe' "$work/said" || fail "$system: doctor --list shows no driver: $(cat "$work/said")"
grep -q '#include' "$work/said" || fail "$system: nothing was generated: $(cat "$work/said")"
printf '%s: the commands for the archive took %d s\n' "$system" $((SECONDS - begin))
cat >"$work/archive" <<'SCRIPT'
cd hekla-*/
for file in bin/hekla libexec/hekla-describe lib/libhekla.so lib/libhekla_glsl.so lib/hekla/plugins/*.so; do
  if ldd "$file" | grep 'not found'; then echo "$file misses a library"; exit 1; fi
done
# Whole, and still working, from another folder.
cd .. && mv hekla-*/ moved && cd /
"$HOME/a folder/moved/bin/hekla" plugin list | grep gpt2 >/dev/null
"$HOME/a folder/moved/bin/hekla" generate "$HOME/a folder/moved/out/quickstart" --prompt 'int' --max-new-tokens 8
SCRIPT
as_user "$work/archive"

# 2. The package, with what it recommends.
grep '^sudo ' "$work/block2" | sed 's/^sudo //' >"$root/script"
quietly inside chroot "$root" bash -euo pipefail -c "cd '$home' && . /script"
grep -v '^sudo ' "$work/block2" >"$work/package"
as_user "$work/package"
grep -q llvmpipe "$work/said" || fail "$system: the package's doctor --list shows no driver: $(cat "$work/said")"
# What it opens on demand: libzip, whose name differs between the systems, and SentencePiece.
cp "$source/tests/fixtures/pytorch/zip.bin" "$root$home/"
cat >"$work/modules" <<'SCRIPT'
hekla inspect zip.bin
ls /usr/share/man/man1/hekla.1 /usr/share/bash-completion/completions/hekla
/sbin/ldconfig -p | grep 'libhekla.so.0 ' >/dev/null
if ldd -r /usr/lib/libhekla_sentencepiece.so | grep -E 'not found|undefined'; then exit 1; fi
SCRIPT
as_user "$work/modules"
quietly inside chroot "$root" apt-get purge hekla
for path in lib/hekla bin/hekla share/hekla; do [ ! -e "$root/usr/$path" ] || fail "$system: the package leaves /usr/$path behind"; done
printf '%s: the archive and the package work\n' "$system"
