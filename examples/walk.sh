#!/usr/bin/env bash
# From a model on raw columns to a gate's verdict: what README.md of the example NAME shows.
# Everything is written to OUT (NAME/build); CFQ names the command.
#
#     ./walk.sh sklearn|embeddings|ft-transformer|keras
set -euo pipefail
cd "$(dirname "$0")/$1"
cfq=$(realpath "${CFQ:-../../bin/cfq}")
data=$(realpath ../../testdata/loans)
out=${OUT:-build}
people=300
[[ $1 != ft-transformer ]] || people=80 # the gradient of attention takes its time
mkdir -p "$out"
cp model.onnx task.yaml gate.yaml "$data"/train.csv "$data"/test.csv "$out"
cd "$out"
rm -f draft.yaml q.onnx*

show() {
	echo "\$ cfq $*"
	local code=0
	"$cfq" "$@" 2>&1 || code=$?
	[[ $code == 0 ]] || echo "exit code $code"
	echo
}

show task init -d train.csv model.onnx --label decision --favourable approved -o draft.yaml
show task check task.yaml -d test.csv model.onnx -q
show quantize model.onnx -d train.csv -t task.yaml -o q.onnx --budget 5 -q
show inspect q.onnx
show gate model.onnx q.onnx -d test.csv -t task.yaml --gate gate.yaml --sample $people -q
