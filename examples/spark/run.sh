#!/usr/bin/env bash
# What `make spark` runs: a Spark cluster on this machine, a master and two workers, finds
# recourse for PEOPLE people by SQL and loses a worker while it does. Then everybody must be in
# the output once, with the same bytes that one process of cfq writes.
set -euo pipefail
cd "$(dirname "$0")"

people=${PEOPLE:-100000}
partitions=${PARTITIONS:-64}
version=4.1.4 # of PyPI's pyspark, which carries all of Spark
no_java=77    # the exit code when there is no Java

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
			fail "cannot install Spark; set SPARK_HOME to a Spark $version"
		}
		mv -T "$part" "$cache/pyspark-$version" || rm -rf "$part" # another run was first
	fi
fi
export SPARK_HOME

data=$(realpath ../../testdata/loans)
cfq=$(realpath "${CFQ:-../../bin/cfq}")
library=${CFQ_ORT_LIB:-$(find "$cache/onnxruntime" -name 'libonnxruntime.so.1' | sort -V | tail -n 1)}
columns=$(head -n 1 "$data/test.csv" | sed 's/,decision$//')

work=$(mktemp -d)
files=$cfq,$data/model.onnx,$data/task.yaml,$library
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
jvm="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
export SPARK_DAEMON_MEMORY=256m SPARK_DAEMON_JAVA_OPTS=$jvm
unset SPARK_WORKER_OPTS SPARK_MASTER_OPTS
mkdir "$SPARK_CONF_DIR"
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

# check NAME: is everybody in the table, and once, with the bytes that one process writes?
check() {
	cat text.sql check.sql >"$work/check.sql"
	job 2 "$work/check.sql" "people=$work/people" "table=$work/$1" "text=$work/$1.text"
	echo "$1: rows too many, ids twice, people lost, unknown ids: $(cat "$work/out")"
	[[ $(cat "$work/out") == $'0\t0\t0\t0' ]] || fail "somebody is lost, twice or unknown"
	cat "$work/$1.text"/part-* >"$work/$1.tsv"
	cmp "$work/$1.tsv" "$work/$1.one" || fail "$1 differ from those of one process"
	echo "$1: the same $(wc -c <"$work/$1.one") bytes from one process"
}

measured() { # measured WHAT SECONDS
	awk -v what="$1" -v s="$2" -v n="$people" 'BEGIN { printf "%-28s %8.1f s %10.0f people/s\n", what, s, n / s }' >>"$work/table"
}

echo "spark: $people people in $partitions partitions, a master and two workers of one core ($SPARK_HOME)"
cat people.sql text.sql >"$work/people.sql"
job 2 "$work/people.sql" "number=$people" "partitions=$partitions" "sample=$data/test.csv" \
	"people=$work/people" "table=$work/people" "text=$work/people.text"
cat "$work"/people.text/part-* >"$work/people.tsv"

# One process.
begin=$EPOCHREALTIME
input=$work/people.tsv start "$work/promises.one" "$work/driver.log" "$cfq" recourse "$data/model.onnx" -t "$data/task.yaml" \
	-q --workers 1 --stream=tsv --keep id --columns "id,$columns"
wait "$started" || fail "cfq failed"
measured "one process" "$(awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }')"

# One worker, then two.
recourse=("partitions=$partitions" "people=$work/people" "promises=$work/promises")
job 1 recourse.sql "${recourse[@]}"
measured "Spark, 1 worker" "$seconds"
job 2 recourse.sql "${recourse[@]}"
measured "Spark, 2 workers" "$seconds"

# Two workers, of which one dies when a quarter of the partitions is done; another comes.
rm -r "$work/promises"
submit 2 recourse.sql "${recourse[@]}"
until (($(find "$work/promises/_temporary" -maxdepth 2 -name 'task_*' 2>/dev/null | wc -l) * 4 >= partitions)); do
	kill -0 "$driver" 2>/dev/null || fail "the job ended before a worker could be killed: want more PEOPLE"
	sleep 0.1
done
stop KILL "$victim"
sleep 2
worker 3
finished recourse.sql
measured "Spark, 1 of 2 workers killed" "$seconds"
grep -q 'Lost executor' "$work/driver.log" || fail "the job ended before a worker could be killed: want more PEOPLE"
check promises

cat "$work/table"
echo "spark: passed in $SECONDS s"
