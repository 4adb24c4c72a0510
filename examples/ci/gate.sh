#!/usr/bin/env bash
# Gate a quantized model and keep every report. This is what the GitHub action,
# the GitLab job and the Makefile in this folder run.
#
#   FULL       the full-precision model
#   QUANTIZED  the quantized one
#   CFQ        the command (cfq)
#   OUT        folder of the reports (cfq-report)
#
# Everything else is said as to cfq gate: by flags behind this script's name, or by
# the environment, where CFQ_DATA stands for --data, CFQ_TASK for --task, CFQ_GATE for
# --gate, CFQ_MAX_VD for --max-vd, and so on.
#
# The exit code is that of cfq gate: 0 passed, 1 failed, 5 inconclusive, 2 and 3 errors.
# With 0, 1 and 5 the reports are there; otherwise there are none, not even older ones.
set -euo pipefail

out=${OUT:-cfq-report}
mkdir -p "$out"
rm -f "$out"/gate.{md,xml,html} # a verdict of yesterday is none of today; gate.json may be what --previous names
code=0
"${CFQ:-cfq}" gate "${FULL:?names the full-precision model}" "${QUANTIZED:?names the quantized model}" "$@" --quiet --overwrite \
	--report "md:$out/gate.md" --report "junit:$out/gate.xml" --report "json:$out/gate.json" \
	--report "html:$out/gate.html" || code=$?
if [[ -n ${GITHUB_STEP_SUMMARY:-} ]]; then
	if [[ -f $out/gate.md ]]; then
		cat "$out/gate.md" >>"$GITHUB_STEP_SUMMARY"
	else
		echo "# cfq gate gave no verdict: exit code $code, see the log" >>"$GITHUB_STEP_SUMMARY"
	fi
fi
exit "$code"
