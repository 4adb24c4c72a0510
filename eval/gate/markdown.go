package gate

import (
	"fmt"
	"strings"
)

// Markdown returns the reference of gates as a section: the verdicts, the keys of a gate file, from the lists that the
// decoder reads by, and the text of a check.
func Markdown() string {
	var b strings.Builder
	text := func(s string) { b.WriteString(strings.ReplaceAll(s, "~", "`")) } // raw strings cannot hold backquotes
	text(introduction)
	fmt.Fprintf(&b, "\n```yaml\n%s```\n", example)
	d := newDecoder("")
	text(fileNote)
	table(&b, d.gateKeys(&Gate{}, &parts{}))
	text("\n### A check of ~checks~\n\n")
	table(&b, d.checkKeys(&Check{}))
	text("\n### A waiver of ~waivers~\n\n")
	table(&b, d.waiverKeys(&Waiver{}))
	text(waiverNote)
	text(checkText)
	text(rules)
	return b.String()
}

func table(b *strings.Builder, keys []key) {
	cell := strings.NewReplacer("|", `\|`)
	b.WriteString("| key | meaning | default |\n|---|---|---|\n")
	for _, k := range keys {
		fallback := k.Fallback
		if fallback == required {
			fallback = "**required**"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", k.Name, cell.Replace(k.Doc), cell.Replace(fallback))
	}
}

// In the texts below ~ stands for a backquote.
const introduction = `# Gates

A check is a limit on a [metric](metrics.md), given by a flag or in a gate file. ~cfq gate~ returns PASS, FAIL or
INCONCLUSIVE for every check and for all of them.
`

// example is the gate file that the page shows.
const example = `version: 1
confidence: 0.95
margin: 0.1

checks:
  - {metric: vd, max: 0.02}                     # at most 2 % of the promises break
  - {metric: rvd, max: 0.02}                    # a more lenient model breaks no promises: check both directions
  - {metric: crg.median, abs_max: 0.05}         # recourse costs about the same
  - {name: fair, metric: vd, by: sex, max: 0.05, max_gap: 0.05}
  - {metric: vd, margin: 0.25, max_increase: 0.01} # compared with the last release
  - {metric: accuracy_drop, max: 0.01, severity: warning}

waivers:
  - check: fair [Female]
    until: 2026-12-31
    reason: new training data arrive in autumn
    owner: credit risk
`

const fileNote = `
## Keys

YAML or JSON. All mistakes are reported at once, with line and column: unknown or duplicate keys, unknown metrics,
invalid limits, waivers of unknown checks. Editors that know YAML schemas read [gate.schema.json](gate.schema.json) from
a first line ~# yaml-language-server: $schema=...~.

`

const waiverNote = `
A finding that does not pass and has a waiver counts as waived until the end of its last day: the report shows it with
reason, owner and day, and it does not block the gate. The report notes waivers that have expired or are no longer
needed.
`

const checkText = `
## A check in one line

~--check~ takes a check as text; a check without ~name~ is called by its text:

~~~text
vd<=0.02                         VD at the gate's margin is at most 2 %
frr@0.25>=0.9                    at margin 0.25, at least 90 % of the people have recourse
vd[sex]<=0.05                    in each group by sex
vd[sex*race]<=0.05:warning       in each group by both, as a warning
|crg.median|<=0.1                at most 0.1 from 0
gap(vd[sex])<=0.05               no two groups by sex differ by more than 5 points
increase(vd@0.25)<=0.01          at most one point above the earlier report
~~~
`

const rules = `
## Verdicts

The people in the file are a sample of the people that the model will decide about. A verdict therefore uses a
confidence bound of the metric, not the value in the sample.

- **PASS**: the metric is within the limit, with the confidence of the gate (95 %). A model whose true VD is at the
  limit or above passes ~max~ in at most 5 % of all samples.
- **FAIL**: the metric is beyond the limit, with the same confidence.
- **INCONCLUSIVE**: too few people, or nothing was measured. Where more people would help, the report gives their
  number.

The gate FAILs if a check of severity ~error~ fails, else it is INCONCLUSIVE if one is, else it PASSes. Waived findings
do not count. A metric that is undefined or was not computed is INCONCLUSIVE.

**Shares** have exact one-sided bounds (Clopper and Pearson). ~max~ passes when the upper bound is at most the limit and
fails when the lower bound is above it; ~min~ is the mirror image. If nothing breaks, n promises show VD <= v when
(1 - v)^n <= 1 - confidence: 149 promises for 2 % at 95 %. For an inconclusive share the report gives the smallest
number of people with which the same share would pass.

**Estimates** (means, medians, quantiles, tau01) use the two-sided interval of the evaluation at confidence c; each end
is a one-sided bound at (1 + c)/2. ~cfq gate~ evaluates with the confidence that its checks need; the interval in an
earlier report may be too low for ~max_increase~. ~abs_max~ passes when both ends are within the limits. With fewer than
~min_people~ people the verdict is INCONCLUSIVE. Intervals of means and ratios assume a normal distribution; those of
medians, quantiles and tau01 assume none. A maximum over the sample has no upper bound: ~margin_error.max~ never passes
~max~.

**Sizes** are exact.

**Groups.** With ~by~, the check passes when every group passes at the gate's confidence; this needs no correction. A
group fails only at a level corrected for the number of groups (Holm), because among many groups one looks bad by
chance. People without a value of the attribute are in no group.

**Gaps.** ~max_gap~ bounds the largest difference of two groups; small groups are left out and named. It passes when no
two groups differ by more than the limit between bounds with half of the error each, and fails when two differ by more
than the limit between bounds that hold for all groups together (Bonferroni).

**Increases.** ~max_increase~ bounds the increase over an earlier JSON report. Each of the two values has a bound with
half of the error, as for independent samples; for the same people the bounds are wider than necessary, and
[cfq compare](command.md) has the sharper test. Reports with issued and with computed promises do not compare, nor do
certificates of different radius.

**Several checks** are not corrected for each other: a gate that passes has passed all of them. Among many gates, some
fail by chance.
`
