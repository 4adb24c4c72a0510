#!/usr/bin/env bash
# From an exported model to one that may be released: what README.md shows. Everything
# is written to OUT (build); CFQ names the command.
set -euo pipefail
cd "$(dirname "$0")"
cfq=$(realpath "${CFQ:-../../bin/cfq}")
data=$(realpath ../../testdata/loans)
out=${OUT:-build}
mkdir -p "$out"
cp model.onnx encoding.json scores.csv task.yaml gate.yaml "$data"/train.csv "$data"/test.csv "$out"
cd "$out"
rm -f draft.yaml promises.csv cf-ptq.onnx* ptq.onnx*

show() {
	echo "\$ cfq $*"
	local code=0
	"$cfq" "$@" 2>&1 || code=$?
	[[ $code == 0 ]] || echo "exit code $code"
	echo
}

show task init -d train.csv model.onnx --encoding encoding.json --label decision --favourable approved -o draft.yaml
show task check task.yaml -d train.csv model.onnx --scores scores.csv -q
show recourse model.onnx -d test.csv -t task.yaml --margin 0.1 -o promises.csv -q
show quantize model.onnx -d train.csv -t task.yaml -o ptq.onnx --method ptq --budget 4 --force -q
show quantize model.onnx -d train.csv -t task.yaml -o cf-ptq.onnx --budget 4 -q
show compare model.onnx ptq=ptq.onnx cf-ptq=cf-ptq.onnx -d test.csv -t task.yaml --margins 0.1 -q
show gate model.onnx ptq.onnx -d test.csv -t task.yaml --promises promises.csv --gate gate.yaml -q
show gate model.onnx cf-ptq.onnx -d test.csv -t task.yaml --promises promises.csv --gate gate.yaml -q
