package gate

import (
	"fmt"
	"strings"

	"cfq/eval"
)

// Markdown returns the reference page of gates: rules, the text of a check, the keys of a gate file by the lists that the decoder reads by, and the metrics.
func Markdown() string {
	var b strings.Builder
	text := func(s string) { b.WriteString(strings.ReplaceAll(s, "~", "`")) } // raw strings cannot hold backquotes
	text(introduction)
	fmt.Fprintf(&b, "\n```yaml\n%s```\n", example)
	text(rules)
	d := newDecoder("")
	text("\n## The gate file\n\n" + fileNote)
	table(&b, d.gateKeys(&Gate{}, &parts{}))
	text("\n### A check of ~checks~\n\n")
	table(&b, d.checkKeys(&Check{}))
	text("\n### A waiver of ~waivers~\n\n")
	table(&b, d.waiverKeys(&Waiver{}))
	text(waiverNote)
	text(checkText)
	text(metricsNote)
	metricsTable(&b)
	return b.String()
}

func table(b *strings.Builder, keys []key) {
	cell := strings.NewReplacer("|", `\|`)
	b.WriteString("| key | what | without it |\n|---|---|---|\n")
	for _, k := range keys {
		fallback := k.Fallback
		if fallback == required {
			fallback = "**required**"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", k.Name, cell.Replace(k.Doc), cell.Replace(fallback))
	}
}

func metricsTable(b *strings.Builder) {
	b.WriteString("| metric | what | unit | better | judged by | margin | needs |\n|---|---|---|---|---|---|---|\n")
	metrics := eval.Metrics()
	needs := [...]string{
		eval.RequiresNothing: "", eval.RequiresMirrored: "both models' recourse", eval.RequiresNoise: "recourse solved twice", eval.RequiresProofs: "certificates",
		eval.RequiresPerturbation: "logit perturbation", eval.RequiresTiming: "timing", eval.RequiresFootprint: "both files",
	}
	for i := range metrics {
		m := &metrics[i]
		by := [...]string{eval.KindShare: "exact bounds", eval.KindEstimate: "interval", eval.KindExact: "its value"}[m.Kind()]
		margin := ""
		if m.PerMargin() {
			margin = "yes"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s | %s | %s |\n", m.ID(), m.Name, m.Unit, m.Better, by, margin, needs[m.Requires])
	}
}

// In the texts below ~ stands for a backquote.
const introduction = `# Gates

    cfq gate model.onnx model.q.onnx -d holdout.csv -t task.yaml --gate gate.yaml

evaluates the quantized model and says whether it may be released: PASS, FAIL or INCONCLUSIVE for every check and for all of them. A check is a limit on a
[metric](metrics.md), given by a flag or in a gate file. This page is generated from the tables in packages gate and eval.

## Example
`

// example is the gate file that the page shows.
const example = `version: 1
confidence: 0.95
margin: 0.1

checks:
  - {metric: vd, max: 0.02}                     # at most 2 % of the promises break
  - {metric: rvd, max: 0.02}                    # VD alone can be had by approving sooner
  - {metric: crg.median, abs_max: 0.05}         # recourse costs about the same
  - {name: fair, metric: vd, by: sex, max: 0.05, max_gap: 0.05}
  - {metric: vd, margin: 0.25, max_increase: 0.01} # against the last release
  - {metric: accuracy_drop, max: 0.01, severity: warning}

waivers:
  - check: fair [Female]
    until: 2026-12-31
    reason: the new training data come in autumn
    owner: credit risk
`

const rules = `
## What the verdicts mean

The people in the file are a sample, and a gate is about the people whom the model will meet. So a verdict rests on a bound, not on the number
that came out.

- **PASS**: with the confidence (95 %), the metric is within the limit. A model whose true VD is at the limit or above it gets past ~max~ in at most 5 % of all samples.
- **FAIL**: with the confidence, it is beyond the limit.
- **INCONCLUSIVE**: neither can be said: too few people, or nothing was measured. Where more people would help, the sentence says how many.

A metric that is not defined or was not computed is INCONCLUSIVE, whatever the limit; nothing passes for want of a number.

**Shares** have the exact one-sided bounds of Clopper and Pearson, from their counts. ~max~ passes when the upper bound is at most the limit and fails when the lower bound is
above it; ~min~ is the mirror image. If nothing breaks, n promises show VD <= v when (1 - v)^n <= 1 - confidence: 149 for 2 % with 95 %. The number of people that an
inconclusive share would need is the smallest with which the share found, if it stays, passes. A share that is at the limit or beyond it would never pass.

**Estimates** (means, medians, quantiles, tau01) have the interval of the evaluation, which is two-sided: each of its ends is a one-sided bound with confidence (1 + c)/2, c being that of the
interval. For a verdict it must be that of the gate or more; for differences (~max_gap~, ~max_increase~) c itself must be, since each of the two numbers has half of the error. ~cfq gate~ evaluates with the
interval that its checks need; an earlier report may have too low a confidence. ~abs_max~ passes when both ends are within the limits. With fewer than ~min_people~
people the verdict is INCONCLUSIVE; runs that were timed may be fewer. How many people an inconclusive estimate would take is a rough number: its interval narrows with their root. The intervals of means and ratios rest on the normal distribution; those of medians, quantiles and tau01 hold whatever the
distribution is. What is largest in a sample says nothing of how large it can get: ~margin_error.max~ can fail, and never passes ~max~.

**Sizes** are exact: within the limit or not.

**By groups.** With ~by~, every group has a verdict of its own, and the check passes when all groups do. That needs no correction: if one group is really beyond the limit,
it is that group's bound that would have to be wrong. Failing is another matter: among many groups one looks bad by chance. So a group FAILs only when it is beyond the
limit at a level corrected for their number (Holm), of an estimate as if it were normal. Small groups are listed like all others, and mostly are INCONCLUSIVE. People without a value of the attribute are in no group.

**Gaps.** ~max_gap~ bounds the largest difference of two groups, small ones left aside and named. It passes when no two groups differ by more than the limit between bounds with half of the error
each, and fails when two are farther apart than the limit by bounds that hold for all groups together (Bonferroni).

**Increase.** ~max_increase~ bounds how much larger the metric is than in an earlier JSON report. Each of the two numbers has bounds with half of the error, as of two independent samples. The
verdict holds for the same people as well, where the bounds are wider than need be; [cfq compare](command.md) tests two models on the same people sharply. Reports whose promises
were made in different ways (given and computed) and certificates of different radius do not compare. Where the earlier report lacks the metric or the margin, the verdict is INCONCLUSIVE.

**All checks.** FAIL if a check of severity ~error~ fails; else INCONCLUSIVE if one is; else PASS. Waived findings do not count. The confidence is that of each check: a gate that
passes has passed all of them, so its error is no larger than that of one. Of many gates that fail, some do so by chance.
`

const fileNote = `YAML or JSON. A key that is not known or given twice, a metric that there is not, a limit that makes no sense and a waiver of nothing are mistakes, and
all mistakes are reported at once with line and column. [gate.schema.json](gate.schema.json) is made from the same list of keys; editors that know YAML schemas take it
from a first line ~# yaml-language-server: $schema=...~ with its path.

`

const waiverNote = `
A finding that does not pass and has a waiver whose last day is not over counts as waived: the report shows it with reason, owner and day, and the gate goes on. That holds for INCONCLUSIVE
as well. The report notes waivers that have expired and those that are no longer needed, since the check passes.
`

const checkText = `
## A check in one line

~--check~ takes a check as a text, and checks without ~name~ are called by theirs:

~~~text
vd<=0.02                         VD at the gate's margin is at most 2 %
frr@0.25>=0.9                    at margin 0.25, at least 90 % of the people can be helped
vd[sex]<=0.05                    in each group by sex
vd[sex*race]<=0.05:warning       in each group by both, and a warning only
|crg.median|<=0.1                at most 0.1 from 0
gap(vd[sex])<=0.05               no two groups by sex are more than 5 points apart
increase(vd@0.25)<=0.01          at most one point above the earlier report
~~~
`

const metricsNote = `
## Metrics

Definitions are in [metrics](metrics.md). Those with a margin are taken at ~margin~.

`
