#!/usr/bin/env bash
# What `make container` runs: what a new user does, in clean containers of Debian, which have nothing of this machine
# but the files of a release, and no Go:
#
#     the image of ci/Containerfile quantizes and judges the loan example
#     docs/quickstart.md, line by line, by a user who is not root: Python and a scikit-learn model, install.sh, the
#     commands; with the model that comes with the project, and for its verdicts with the one just trained
#
# The release is that of build/release, built on this machine, which must not have a newer glibc than Debian 12. Needs
# podman or docker. Where no image of Debian can be pulled, debootstrap makes one.
set -euo pipefail
umask 022 # what is mounted is read by others
cd "$(dirname "$0")/.."

base=docker.io/library/debian:bookworm-slim
case $(uname -m) in
aarch64 | arm64) arch=arm64 ;;
*) arch=amd64 ;;
esac
no_container=69 # the exit code when there is no container to be had, or the network has not what it needs
tag=cfq:try-$$

nothing() {
	echo "container: NOTHING WAS CHECKED: $1" >&2
	exit $no_container
}

for engine in podman docker ''; do
	[[ $engine ]] || nothing "neither podman nor docker answers; install one"
	! "$engine" info >/dev/null 2>&1 || break
done
export BUILDAH_ISOLATION=chroot # of podman: building needs no more, and works where containers are nested
work=$(mktemp -d)
finish() {
	rm -rf "$work"
	"$engine" image rm --force $tag >/dev/null 2>&1 || true
}
trap finish EXIT

# A container has the network, the package index and the trusted certificates of this machine, and limits that no
# machine refuses.
options=(--network host --ulimit nofile=4096:4096 --ulimit nproc=4096:4096)
run=("$engine" run --rm --security-opt label=disable "${options[@]}")
pip=/etc/pip.conf certificates=/etc/ssl/certs/ca-certificates.crt
[[ ! -f $pip ]] || run+=(--volume "$pip:$pip:ro")
[[ ! -f $certificates ]] || run+=(--volume "$certificates:/etc/trusted.crt:ro" --env PIP_CERT=/etc/trusted.crt)
for name in http_proxy https_proxy no_proxy PIP_INDEX_URL; do
	[[ -z ${!name:-} ]] || run+=(--env "$name")
done

# debian looks for the image that everything begins with.
debian() {
	"$engine" image inspect $base >/dev/null 2>&1 && return
	"$engine" pull --quiet $base >"$work/log" 2>&1 && return
	base=localhost/debian-of-debootstrap
	"$engine" image inspect $base >/dev/null 2>&1 && return
	command -v debootstrap >/dev/null && [[ $(id -u) == 0 ]] ||
		nothing "no image of Debian can be pulled, and there is no debootstrap to make one: $(tail -n 1 "$work/log")"
	echo "== no image of Debian can be pulled: debootstrap makes one"
	debootstrap --variant=minbase bookworm "$work/debian" >"$work/log" 2>&1 || nothing "$(tail -n 1 "$work/log")"
	tar -C "$work/debian" -c . | "$engine" import - $base >/dev/null
	rm -rf "$work/debian"
}

debian
"${run[@]}" $base true >"$work/log" 2>&1 || nothing "no container can be run here: $(tail -n 1 "$work/log")"

glibc=$(getconf GNU_LIBC_VERSION)
printf '%s\n' "${glibc#glibc }" 2.36 | sort -VC ||
	nothing "what is built here needs $glibc, and Debian 12 has 2.36: run this on an older system"
releases=$(realpath build/release)
archive=$(basename "$releases"/cfq-*-linux-$arch.tar.gz .tar.gz)

echo "== examples/ci/Containerfile"
"$engine" build "${options[@]}" --quiet --file examples/ci/Containerfile --build-arg "RELEASE=$archive" \
	--build-arg "BASE=$base" --tag $tag "$releases"
mkdir "$work/loans"
cp testdata/loans/{model.onnx,{train,test}.csv,task.yaml{,.verified}} "$work/loans"
chmod 777 "$work/loans" # a user of the image writes there
cfq() {
	echo "\$ docker run cfq $*"
	"${run[@]}" --volume "$work/loans:/work" --user 65534 $tag "$@"
}
cfq doctor
cfq quantize model.onnx -d train.csv -t task.yaml -o q.onnx -q
cfq gate model.onnx q.onnx -d test.csv -t task.yaml --max-vd 0.02 --sample 300 -q

mkdir "$work/project"
cp -r docs examples testdata "$work/project"

cat >"$work/user.sh" <<'END'
set -euo pipefail
cd /tmp/project
if command -v go; then exit 1; fi
PATH=$PATH:$HOME/bin
mkdir "$HOME/bin"
ln -s "$(CFQ_RELEASES=/releases sh /releases/install.sh)" "$HOME/bin/cfq"
python3 -m venv "$HOME/venv"
source "$HOME/venv/bin/activate"
# What the page says of training a model: its indented lines.
sed -n -E 's/^    ((pip|python) )/\1/p' docs/quickstart.md >train.sh
[[ $(wc -l <train.sh) == 2 ]] # pip install, and train.py
export PIP_QUIET=1
eval "$(head -n 1 train.sh)" || { echo "container: NOTHING WAS CHECKED of the quick start: pip cannot install" >&2; exit 69; }
eval "$(tail -n 1 train.sh)"
echo "== the quick start"
examples/walk.sh docs/quickstart.md
echo "== the quick start, with the model just trained: the same verdicts, whatever the numbers"
mv model.onnx examples/sklearn/
examples/walk.sh docs/quickstart.md >fresh.txt || true
grep '^FAIL: ptq.onnx against model.onnx' fresh.txt
grep '^PASS: model.q.onnx against model.onnx' fresh.txt
END

cat >"$work/root.sh" <<'END'
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq && apt-get install -qq python3-venv >/dev/null || {
	echo "container: NOTHING MORE WAS CHECKED: apt-get cannot install Python" >&2
	exit 69
}
useradd --create-home newcomer
cp -r /project /tmp/project
chown -R newcomer /tmp/project
su newcomer -c "bash /user.sh"
END

"${run[@]}" --volume "$releases:/releases:ro" --volume "$work/project:/project:ro" \
	--volume "$work/root.sh:/root.sh:ro" --volume "$work/user.sh:/user.sh:ro" $base bash /root.sh
echo "== container: passed"
