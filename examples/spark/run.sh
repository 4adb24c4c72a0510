#!/usr/bin/env bash
# What `make spark` runs: a Spark cluster on this machine, a master and two workers, finds
# recourse for PEOPLE people by SQL, loses a worker while it does, and evaluates a quantized model.
# Everybody must be in promises and records once, and promises, report and verdict must be the
# bytes that one process of cfq writes. QUICK=1 leaves out what only takes times.
set -euo pipefail
cd "$(dirname "$0")"

people=${PEOPLE:-100000}
partitions=${PARTITIONS:-64}
version=4.1.4 # of PyPI's pyspark, which carries all of Spark
no_java=77    # the exit code when there is no Java
no_spark=69   # and when Spark cannot be fetched

fail() {
	echo "spark: $*" >&2
	exit 1
}

java=${JAVA_HOME:+$JAVA_HOME/bin/}java
if ! command -v "$java" >/dev/null; then
	echo "spark: NOTHING WAS CHECKED: there is no Java; install Java 17 or newer, or set JAVA_HOME" >&2
	exit $no_java
fi

cache=${CFQ_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/cfq}
if [[ -z ${SPARK_HOME:-} ]]; then
	SPARK_HOME=$cache/pyspark-$version/pyspark
	if [[ ! -d $SPARK_HOME ]]; then
		echo "spark: installing Spark $version (a download of 455 MB) into $cache"
		mkdir -p "$cache"
		part=$(mktemp -d "$cache/pyspark-$version.XXXXXX")
		python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --no-deps --no-cache-dir --target "$part" "pyspark==$version" || {
			rm -rf "$part"
			echo "spark: NOTHING WAS CHECKED: cannot install Spark; set SPARK_HOME to a Spark $version" >&2
			exit $no_spark
		}
		mv -T "$part" "$cache/pyspark-$version" || rm -rf "$part" # another run was first
	fi
fi
export SPARK_HOME

data=$(realpath ../../testdata/loans)
cfq=$(realpath "${CFQ:-../../bin/cfq}")
library=${CFQ_ORT_LIB:-$(find "$cache/onnxruntime" -name 'libonnxruntime.so.1' | sort -V | tail -n 1)}
columns=id,$(head -n 1 "$data/test.csv" | sed 's/,decision$//')

work=$(mktemp -d)
groups=() # process groups: whatever is started is the leader of one

# A machine fails as a whole: its worker, its executor and the executor's processes.
stop() { kill -"$1" -- "-$2" 2>/dev/null || true; }

finish() {
	local code=$? group
	trap '' INT TERM
	if [[ $code != 0 && -f $work/driver.log ]]; then
		echo "spark: exit code $code; the end of the last log:" >&2
		tail -n 30 "$work/driver.log" >&2
	fi
	for group in "${groups[@]}"; do
		stop KILL "$group"
		while kill -0 -- "-$group" 2>/dev/null; do sleep 0.1; done
	done
	rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

start() { # start OUT ERR COMMAND...: in the background; its process group is $started
	local out=$1 err=$2
	shift 2
	setsid "$@" <"${input:-/dev/null}" >"$out" 2>"$err" &
	started=$!
	groups+=("$started")
}

export SPARK_CONF_DIR=$work/conf SPARK_LOCAL_DIRS=$work/local SPARK_LOCAL_IP=127.0.0.1
# The work is cfq's. Half of the time that a virtual machine needs to start is the optimizing compiler's.
jvm="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData -Djava.io.tmpdir=$work/tmp"
export SPARK_DAEMON_MEMORY=256m SPARK_DAEMON_JAVA_OPTS=$jvm
unset SPARK_WORKER_OPTS SPARK_MASTER_OPTS
mkdir "$SPARK_CONF_DIR" "$work/tmp"
cat >"$SPARK_CONF_DIR/spark-defaults.conf" <<CONF
spark.driver.bindAddress                                127.0.0.1
spark.driver.host                                       127.0.0.1
spark.driver.memory                                     768m
spark.executor.cores                                    1
spark.driver.extraJavaOptions                           $jvm
spark.executor.extraJavaOptions                         $jvm
spark.executor.memory                                   512m
spark.sql.shuffle.partitions                            4
spark.master.rest.enabled                               false
spark.scheduler.minRegisteredResourcesRatio             1
spark.sql.catalogImplementation                         in-memory
spark.sql.warehouse.dir                                 $work/warehouse
spark.ui.enabled                                        false
CONF
cat >"$SPARK_CONF_DIR/log4j2.properties" <<CONF
rootLogger.level = info
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n%ex
CONF

await() { # await SECONDS FILE PATTERN: what the pattern finds in a log, when it is there
	local end=$((SECONDS + $1))
	until grep -o -m 1 -- "$3" "$2" 2>/dev/null; do
		((SECONDS < end)) || fail "no \"$3\" in $(basename "$2") after $1 s"
		sleep 0.2
	done
}

worker() { # worker NUMBER: one core of a cluster
	start /dev/null "$work/worker$1.log" "$SPARK_HOME/bin/spark-class" org.apache.spark.deploy.worker.Worker --host 127.0.0.1 \
		--cores 1 --memory 512m --webui-port 0 --work-dir "$work/worker$1" "$master"
	disown "$started"
}

# People have an id here, so the task names it.
cp "$data/model.onnx" "$work"
sed 's/^data:$/&\n  id: id/' "$data/task.yaml" >"$work/task.yaml"
cp "$data/task.yaml.verified" "$work"
awk '{ print (NR == 1 ? "id," : "train" NR ",") $0 }' "$data/train.csv" >"$work/train.csv"
"$cfq" quantize "$work/model.onnx" -d "$work/train.csv" -t "$work/task.yaml" -o "$work/model.q.onnx" -q >/dev/null
files=$cfq,$library,$work/model.onnx,$work/model.q.onnx,$work/model.q.onnx.rows,$work/task.yaml

# Port 0 lets the system choose a free one.
start /dev/null "$work/master.log" "$SPARK_HOME/bin/spark-class" org.apache.spark.deploy.master.Master \
	--host 127.0.0.1 --port 0 --webui-port 0
disown "$started" # or the shell says that it was killed
master=$(await 60 "$work/master.log" 'spark://127\.0\.0\.1:[0-9]*')
worker 1
victim=$started
worker 2
await 60 "$work/worker1.log" 'Successfully registered' >/dev/null
await 60 "$work/worker2.log" 'Successfully registered' >/dev/null

# submit CORES FILE NAME=VALUE...: starts a file of SQL with these variables.
submit() {
	local cores=$1 file=$2 variable variables=()
	shift 2
	for variable; do variables+=(--hivevar "$variable"); done
	: >"$work/driver.log"
	start "$work/out" "$work/driver.log" "$SPARK_HOME/bin/spark-sql" --master "$master" \
		--conf "spark.cores.max=$cores" --files "$files" "${variables[@]}" -f "$file"
	driver=$started
}

# job CORES FILE NAME=VALUE...: runs it; $seconds is what its last statement took.
job() {
	submit "$@"
	finished "$2"
}

finished() {
	wait "$driver" || fail "$1 failed"
	seconds=$(grep -o 'Time taken: [0-9.]*' "$work/driver.log" | tail -n 1 | cut -d ' ' -f 3)
}

# complete: was everybody in the tables, and once?
complete() {
	local line n=0
	while read -r line; do
		[[ $line == $'0\t0\t0\t0' ]] || fail "rows too many, ids twice, people lost, unknown ids: $line"
		((++n))
	done < <(grep -P '^-?\d+\t-?\d+\t\d+\t\d+$' "$work/out")
	((n == 2)) || fail "the tables were not counted"
	echo "promises, records: nobody lost, nobody twice"
}

same() { # same WHAT FILE FILE
	cmp "$2" "$3" || fail "$1: not as one process has it"
	[[ -s $3 ]] || fail "$1: nothing was written"
	echo "$1: the same $(wc -c <"$3") bytes as with one process"
}

# record_columns declares the columns that cfq eval answers people by, in SQL.
record_columns() {
	tr , '\t' <<<"$columns" | "$cfq" eval "$work/model.onnx" "$work/model.q.onnx" -t "$work/task.yaml" -q --margins 0.1 \
		--stream=tsv | sed 's/[^\t]\+/`&` STRING/g; s/\t/, /g'
}

# report WHERE SUBCOMMAND...: what a subcommand says of the records there, and its exit code.
report() {
	local where=$work/$1
	shift
	(
		cd "$where"
		code=0
		"$cfq" "$@" -q >"$1.txt" 2>"$work/driver.log" || code=$?
		((code == 0 || code == 1 || code == 5)) || exit "$code"
		echo "exit code $code" >>"$1.txt"
	) || fail "cfq $1 failed"
}

measured() { # measured WHAT SECONDS
	awk -v what="$1" -v s="$2" -v n="$people" 'BEGIN { printf "%-28s %8.1f s %10.0f people/s\n", what, s, n / s }' >>"$work/table"
}

# elapsed COMMAND...: runs a process; $seconds is what it took.
elapsed() {
	local begin=$EPOCHREALTIME
	start "$@"
	wait "$started" || fail "$3 failed"
	seconds=$(awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }')
}

echo "spark: $people people in $partitions partitions, a master and two workers of one core ($SPARK_HOME)"
cat people.sql text.sql >"$work/people.sql"
job 2 "$work/people.sql" "number=$people" "partitions=$partitions" "sample=$data/test.csv" \
	"people=$work/people" "table=$work/people" "text=$work/people.text"
cat "$work"/people.text/part-* >"$work/people.tsv"

# Recourse: one process, one worker, two.
input=$work/people.tsv elapsed "$work/promises.one" "$work/driver.log" "$cfq" recourse "$work/model.onnx" -t "$work/task.yaml" \
	-q --workers 1 --stream=tsv --columns "$columns"
measured "recourse, one process" "$seconds"
recourse=("partitions=$partitions" "people=$work/people" "promises=$work/promises")
if [[ -z ${QUICK:-} ]]; then
	job 1 recourse.sql "${recourse[@]}"
	measured "recourse, 1 worker" "$seconds"
	job 2 recourse.sql "${recourse[@]}"
	measured "recourse, 2 workers" "$seconds"
	rm -r "$work/promises"
fi

# Two workers, of which one dies when a quarter of the partitions is done; another comes.
submit 2 recourse.sql "${recourse[@]}"
until (($(find "$work/promises/_temporary" -maxdepth 2 -name 'task_*' 2>/dev/null | wc -l) * 4 >= partitions)); do
	kill -0 "$driver" 2>/dev/null || fail "the job ended before a worker could be killed: want more PEOPLE"
	sleep 0.1
done
stop KILL "$victim"
sleep 2
worker 3
finished recourse.sql
measured "recourse, 1 of 2 killed" "$seconds"
grep -q 'Lost executor' "$work/driver.log" || fail "the job ended before a worker could be killed: want more PEOPLE"

# One more job checks the promises, evaluates, and checks the records.
mkdir "$work/one" "$work/spark"
{
	cat text.sql check.sql evaluate.sql
	sed 's/{table}/{records}/' check.sql
} >"$work/evaluate.sql"
job 2 "$work/evaluate.sql" "partitions=$partitions" "people=$work/people" "table=$work/promises" \
	"text=$work/promises.text" "records=$work/spark/records" "columns=$(record_columns)"
measured "evaluation, 2 workers" "$(grep -o 'Time taken: [0-9.]*' "$work/driver.log" | tail -n 4 | head -n 1 | cut -d ' ' -f 3)"
complete
cat "$work/promises.text"/part-* >"$work/promises.tsv"
same promises "$work/promises.tsv" "$work/promises.one"

# The records of one process. Reports name their command, so both have the same.
for where in one spark; do
	cp "$work"/{model.onnx,model.q.onnx,model.q.onnx.rows,task.yaml{,.verified}} "$work/$where"
done
{
	echo "$columns"
	tr '\t' , <"$work/people.tsv"
} >"$work/people.csv"
elapsed "$work/eval.txt" "$work/driver.log" "$cfq" eval "$work/model.onnx" "$work/model.q.onnx" -d "$work/people.csv" \
	-t "$work/task.yaml" -q --workers 1 --margins 0.1 --noise 0 --records "$work/one/records/"
measured "evaluation, one process" "$seconds"
for where in one spark; do
	report "$where" summarize model.onnx model.q.onnx 'records/*.parquet' -t task.yaml --noise 0
	report "$where" gate model.onnx model.q.onnx -t task.yaml --records 'records/*.parquet' --margin 0.1 --max-vd 0.05
done
same "cfq summarize" "$work/spark/summarize.txt" "$work/one/summarize.txt"
same "cfq gate --records" "$work/spark/gate.txt" "$work/one/gate.txt"

cat "$work/table"
echo "spark: passed in $SECONDS s"
