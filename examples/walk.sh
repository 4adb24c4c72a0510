#!/usr/bin/env bash
# From a model on raw columns to a gate's verdict: what README.md of the example NAME shows.
# Everything is written to OUT (NAME/build); CFQ names the command.
#
#     ./walk.sh sklearn|embeddings|ft-transformer|keras
#
# With a page, every command of it: each line behind "$ " in a block of text is run, from the folder IN (the project's),
# and has to print what is below it, where ... stands for any lines. Numbers may differ, as they do between processors;
# that is said. With STRICT they may do so by a tenth or by 1. Of a page with comments "recorded:", only the blocks below
# these are run.
#
#     ./walk.sh ../docs/quickstart.md
set -euo pipefail

number='-?[0-9]+([.][0-9]+)?(e-?[0-9]+)?' # an extended regular expression

# page runs the commands of a page.
page() {
	local file wrong=0 block=0 command='' want='' marked=1
	file=$(realpath "$1")
	got=$(mktemp)
	trap 'rm -f "$got"' EXIT
	cd "${IN:-$(dirname "$0")/..}"
	unset CFQ_LOOKS_FILE # the page judges each model once
	! grep -q '^<!-- recorded: ' "$file" || marked=0
	while IFS= read -r line <&3; do
		case $block:$line in
		0:'<!-- recorded: '*) marked=2 ;;
		0:'```text') [[ $marked == 0 ]] || block=1 ;;
		0:'```'*) [[ $marked == 1 ]] || marked=0 ;;
		1:'```')
			check
			block=0 command=''
			[[ $marked == 1 ]] || marked=0
			;;
		1:'$ '*) check && command=${line#'$ '} want='' ;;
		1:*) want+=$line$'\n' ;;
		esac
	done 3<"$file"
	[[ $block == 0 ]] || { echo "walk.sh: the last block of $file is not closed" && wrong=1; }
	return $wrong
}

# check runs command, in this shell, and compares what it prints with want.
check() {
	[[ $command ]] || return 0
	local code=0 out
	eval "$command" >"$got" 2>&1 </dev/null || code=$?
	[[ $code == 0 ]] || echo "exit code $code" >>"$got"
	out=$(cat "$got")
	printf '$ %s\n%s\n' "$command" "$out"
	if like "$out" "${want%$'\n'}"; then
		return 0
	elif like "$(digitless <<<"$out")" "$(digitless <<<"${want%$'\n'}")"; then
		near "$got" <<<"${want%$'\n'}" || [[ ! ${STRICT-} ]] || wrong=1
		echo "walk.sh: other numbers than in the page"
	else
		echo "walk.sh: the page has other lines:" && diff <(echo "${want%$'\n'}") "$got" || wrong=1
	fi
}

# like says whether a text is what the page has, in which a line of three dots stands for any lines.
like() {
	local pattern
	pattern=$(sed 's/[][*?\\()|+@!]/\\&/g; s/^\.\.\.$/*/' <<<"$2")
	# shellcheck disable=SC2053 # a pattern
	[[ $1 == $pattern ]]
}

# near says whether the lines of a file have about the numbers that the page has. Both have the same lines.
near() {
	awk -v number="$number" '
		function form(s) { gsub(number, "#", s); gsub(/ +/, " ", s); return s }
		function close_to(a, b, x, y, d, most) {
			while (match(a, number)) {
				x = substr(a, RSTART, RLENGTH) + 0; a = substr(a, RSTART + RLENGTH)
				match(b, number)
				y = substr(b, RSTART, RLENGTH) + 0; b = substr(b, RSTART + RLENGTH)
				d = x > y ? x - y : y - x
				most = x * x > y * y ? x : y
				if (d > 1 && d * 10 > (most < 0 ? -most : most)) return 0
			}
			return 1
		}
		NR == FNR { out[++n] = $0; next }
		$0 == "..." { next }
		{
			while (++k <= n && !(form(out[k]) == form($0) && close_to(out[k], $0))) { }
			if (k > n) { print "walk.sh: no line is near to: " $0; wrong = 1; exit }
		}
		END { exit wrong }
	' "$1" -
}

# digitless has # for each number, whatever its sign, and one space where there are several.
digitless() { sed -E "s/$number/#/g; s/ +/ /g"; }

if [[ -f $1 ]]; then
	page "$1"
	exit
fi
cd "$(dirname "$0")/$1"
cfq=$(realpath "${CFQ:-../../bin/cfq}")
data=$(realpath ../../testdata/loans)
out=${OUT:-build}
people=300
[[ $1 != ft-transformer ]] || people=80 # the gradient of attention takes its time
mkdir -p "$out"
cp model.onnx task.yaml gate.yaml "$data"/train.csv "$data"/test.csv "$out"
check=(test.csv model.onnx) # the graph shows how people are encoded
if [[ -f scores.csv ]]; then
	cp scores.csv "$out"
	check=(train.csv model.onnx --scores scores.csv)
fi
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
show task check task.yaml -d "${check[@]}" -q
show quantize model.onnx -d train.csv -t task.yaml -o q.onnx --budget 5 -q
show inspect q.onnx
show gate model.onnx q.onnx -d test.csv -t task.yaml --gate gate.yaml --sample $people -q
