#!/bin/sh
# Install a release of cfq for Linux or macOS: the program, the ONNX Runtime library next to it, gate.sh.
#
#   CFQ_RELEASES  address or folder of the release's files: archives and SHA256SUMS
#   CFQ_DIR       folder to install into ($HOME/.local/share/cfq); an earlier installation in it is replaced
#
# The last line on stdout is the program's path. Whatever fails, an earlier installation stays as it was.
set -eu

fail() {
	echo "install.sh: error: $1" >&2
	exit 1
}

releases=${CFQ_RELEASES:?names the address or the folder of the files of a release}
dir=${CFQ_DIR:-$HOME/.local/share/cfq}
case $(uname -s) in
Linux) os=linux ;;
Darwin) os=darwin ;;
*) fail "no archive for $(uname -s) that this script can unpack: take one from $releases by hand" ;;
esac
case $(uname -m) in
x86_64 | amd64) arch=amd64 ;;
aarch64 | arm64) arch=arm64 ;;
*) fail "no archive for the processor $(uname -m)" ;;
esac

fetch() {
	case $releases in
	*://*) curl -fsSL --retry 3 -o "$2" "$releases/$1" ;;
	*) cp "$releases/$1" "$2" ;;
	esac || fail "$releases/$1 cannot be read"
}

mkdir -p "$(dirname "$dir")"
tmp=$(mktemp -d "$(dirname "$dir")/.cfq-install-XXXXXX") # on the same file system, so that moving cannot fail half-way
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM
fetch SHA256SUMS "$tmp/SHA256SUMS"
archive=$(sed -n "s/^[0-9a-f]*  \(cfq-.*-$os-$arch\.tar\.gz\)\$/\1/p" "$tmp/SHA256SUMS")
[ -n "$archive" ] || fail "$releases has no archive for $os/$arch"
[ "$(echo "$archive" | wc -l)" -eq 1 ] || fail "$releases has several versions: $(echo "$archive" | tr '\n' ' ')"
fetch "$archive" "$tmp/$archive"
grep -F "  $archive" "$tmp/SHA256SUMS" >"$tmp/sum"
if command -v sha256sum >/dev/null; then
	(cd "$tmp" && sha256sum -c sum >/dev/null 2>&1) || fail "$archive has not the hash of SHA256SUMS"
else
	(cd "$tmp" && shasum -a 256 -c sum >/dev/null 2>&1) || fail "$archive has not the hash of SHA256SUMS"
fi
tar -xzf "$tmp/$archive" -C "$tmp"
new=$tmp/${archive%.tar.gz}
"$new/cfq" version >&2 || fail "the program of $archive does not run here; on Linux it needs the glibc of the machine that built it, or later"
trap '' INT TERM # until one has taken the place of the other
[ ! -e "$dir" ] || mv "$dir" "$tmp/earlier"
mv "$new" "$dir"
echo "$dir/cfq"
