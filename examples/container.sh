#!/usr/bin/env bash
# What `make container` runs: what a new user does, in clean containers of Debian, which have nothing of this machine
# but the files of a release, and no Go:
#
#     the image of ci/Containerfile quantizes and judges the loan example
#     the Debian package and the wheel are installed, and find their own library
#     docs/tutorial.md, line by line, by a user who is not root: Python and a scikit-learn model, install.sh, the
#     commands; first with the model that comes with the project, then with the one just trained
#
# CFQ_RELEASES is a folder of `make release`; without it, a release is built with the compiler of this machine, which
# must not have a newer glibc than Debian 12. Needs podman or docker. Where no image of Debian can be pulled,
# debootstrap makes one.
set -euo pipefail
cd "$(dirname "$0")/.."

base=docker.io/library/debian:bookworm-slim
case $(uname -m) in
aarch64 | arm64) arch=arm64 ;;
*) arch=amd64 ;;
esac
no_container=69 # the exit code when there is no container to be had

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
	"$engine" image rm --force cfq:try >/dev/null 2>&1 || true
}
trap finish EXIT

# A container has the network, the package index and the trusted certificates of this machine, and limits that no
# machine refuses.
options=(--network host --ulimit nofile=4096:4096 --ulimit nproc=4096:4096)
run=("$engine" run --rm "${options[@]}")
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
	command -v debootstrap >/dev/null && [[ $(id -u) == 0 ]] ||
		nothing "$base cannot be pulled, and there is no debootstrap to make it: $(tail -n 1 "$work/log")"
	echo "== $base cannot be pulled: debootstrap makes one"
	debootstrap --variant=minbase bookworm "$work/debian" >"$work/log" 2>&1 || nothing "$(tail -n 1 "$work/log")"
	tar -C "$work/debian" -c . | "$engine" import - $base >/dev/null
	rm -rf "$work/debian"
}

debian
"${run[@]}" $base true >"$work/log" 2>&1 || nothing "no container can be run here: $(tail -n 1 "$work/log")"

releases=${CFQ_RELEASES:-$work/releases}
[[ -n ${CFQ_RELEASES:-} ]] || build/tools/release -own -version v0.0.0 -o "$releases"
releases=$(realpath "$releases")
archive=$(basename "$releases"/cfq-*-linux-$arch.tar.gz .tar.gz)

echo "== examples/ci/Containerfile"
"$engine" build "${options[@]}" --quiet --file examples/ci/Containerfile --build-arg "RELEASE=$archive" \
	--tag cfq:try "$releases"
mkdir "$work/loans"
cp testdata/loans/{model.onnx,{train,test}.csv,task.yaml} "$work/loans"
chmod 777 "$work" "$work/loans"
cfq() {
	echo "\$ docker run cfq $*"
	"${run[@]}" --volume "$work/loans:/work" --user 65534 cfq:try "$@"
}
cfq doctor
cfq quantize model.onnx -d train.csv -t task.yaml -o q.onnx -q
cfq gate model.onnx q.onnx -d test.csv -t task.yaml --max-vd 0.02 --sample 300 -q

# The files of the project as they stand, and nothing that was built.
mkdir "$work/project"
git ls-files -z | tar -c --null -T - | tar -x -C "$work/project"

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
sed -n -E 's/^    ((pip|python) )/\1/p' docs/tutorial.md >train.sh
[[ $(wc -l <train.sh) == 2 ]]
export PIP_QUIET=1
echo "== the tutorial's model is trained"
set -x
source train.sh
set +x
echo "== the tutorial"
examples/walk.sh docs/tutorial.md
echo "== the tutorial, with the model just trained"
mv model.onnx examples/sklearn/
examples/walk.sh docs/tutorial.md
END

cat >"$work/root.sh" <<'END'
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -qq python3-venv >/dev/null
echo "== the Debian package"
apt-get install -qq /releases/cfq_*_$(dpkg --print-architecture).deb >/dev/null
cfq doctor
apt-get remove -qq cfq >/dev/null
echo "== the wheel"
python3 -m venv /opt/wheel
/opt/wheel/bin/pip install --quiet --no-index /releases/cfq-*linux*_$(uname -m).whl
/opt/wheel/bin/cfq doctor
useradd --create-home newcomer
cp -r /project /tmp/project
chown -R newcomer /tmp/project
su newcomer -c "bash /user.sh"
END

"${run[@]}" --volume "$releases:/releases:ro" --volume "$work/project:/project:ro" \
	--volume "$work/root.sh:/root.sh:ro" --volume "$work/user.sh:/user.sh:ro" $base bash /root.sh
echo "== container: passed"
