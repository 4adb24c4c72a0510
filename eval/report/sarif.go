package report

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"cfq/eval"
	"cfq/eval/gate"
)

// The objects of SARIF 2.1.0 that services for code scanning read. The library for it would link a JSON schema
// validator that is no longer kept.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool struct {
			Driver sarifDriver `json:"driver"`
		} `json:"tool"`
		Invocations []sarifInvocation `json:"invocations"`
		Results     []sarifResult     `json:"results"`
		Properties  map[string]string `json:"properties"`
	}
	sarifDriver struct {
		Name  string      `json:"name"`
		Full  string      `json:"fullName,omitempty"`
		Rules []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID    string    `json:"id"`
		Name  string    `json:"name"`
		Short sarifText `json:"shortDescription"`
		Full  sarifText `json:"fullDescription"`
		Help  sarifText `json:"help"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifInvocation struct {
		Successful    bool                `json:"executionSuccessful"`
		Notifications []sarifNotification `json:"toolExecutionNotifications,omitempty"`
	}
	sarifNotification struct {
		Level   string    `json:"level"`
		Message sarifText `json:"message"`
	}
	sarifResult struct {
		Rule         string             `json:"ruleId"`
		Index        int                `json:"ruleIndex"`
		Level        string             `json:"level"`
		Message      sarifText          `json:"message"`
		Locations    []sarifLocation    `json:"locations"`
		Fingerprints map[string]string  `json:"partialFingerprints"`
		Suppressions []sarifSuppression `json:"suppressions,omitempty"`
	}
	sarifLocation struct {
		Physical struct {
			Artifact struct {
				URI string `json:"uri"`
			} `json:"artifactLocation"`
			Region struct {
				Start int `json:"startLine"` // services refuse results without a line: the first
			} `json:"region"`
		} `json:"physicalLocation"`
	}
	sarifSuppression struct {
		Kind          string `json:"kind"`
		Justification string `json:"justification"`
	}
)

// SARIF writes the findings of d's gate that do not pass, as SARIF 2.1.0: a rule for each metric, a result for each
// finding, at the quantized model's file. What fails is an error, what is inconclusive a warning, of checks that only
// warn a warning and a note; what is waived is suppressed. Findings that pass are left out: services close the alert of
// a result that is no longer there. It fails without a gate.
func SARIF(w io.Writer, d *Document) error {
	g := d.Gate
	if g == nil {
		return errors.New("report: no gate for the sarif view: use cfq gate")
	}
	run := sarifRun{
		Results: []sarifResult{}, Properties: map[string]string{"verdict": string(g.Verdict)},
		Invocations: []sarifInvocation{{Successful: true}},
	}
	run.Tool.Driver = sarifDriver{Name: "cfq", Full: clean(d.Tool), Rules: []sarifRule{}}
	notify := func(level string, texts []string) {
		to := &run.Invocations[0].Notifications
		for _, text := range texts {
			*to = append(*to, sarifNotification{level, sarifText{clean(text)}})
		}
	}
	notify("warning", slices.Concat(d.Warnings, d.Result.Warnings))
	notify("note", slices.Concat(g.Next, g.Notes))
	seen := map[string]int{}
	for i := range g.Findings {
		if f := &g.Findings[i]; f.Verdict != gate.Pass {
			run.add(f, pathOf(d), seen)
		}
	}
	return writeJSON(w, sarifLog{"https://json.schemastore.org/sarif-2.1.0.json", "2.1.0", []sarifRun{run}})
}

// add adds a finding on a model. seen counts those of one name, as a check with several limits has them.
func (r *sarifRun) add(f *gate.Finding, model string, seen map[string]int) {
	rules := &r.Tool.Driver.Rules
	at := slices.IndexFunc(*rules, func(have sarifRule) bool { return have.ID == f.Metric })
	if at < 0 {
		at = len(*rules)
		*rules = append(*rules, ruleOf(f.Metric))
	}
	name := f.Name() + " " + f.Limit
	seen[name]++
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", name, seen[name]))
	res := sarifResult{
		Rule: f.Metric, Index: at, Level: sarifLevel(f), Locations: make([]sarifLocation, 1),
		Message:      sarifText{clean(fmt.Sprintf("%s: %s: %s", verdictOf(f), f.Name(), f.Why))},
		Fingerprints: map[string]string{"cfqCheck/v1": hex.EncodeToString(sum[:16])},
	}
	res.Locations[0].Physical.Artifact.URI = uriOf(model)
	res.Locations[0].Physical.Region.Start = 1
	if f.Waived != "" {
		res.Suppressions = []sarifSuppression{{"external", clean(f.Waived)}}
	}
	r.Results = append(r.Results, res)
}

func ruleOf(metric string) sarifRule {
	m, known := eval.MetricBy(metric)
	if !known { // in a report that a later version wrote
		m.Name, m.Definition = metric, metric
	}
	return sarifRule{
		metric, clean(metric),
		sarifText{clean(m.Name)},
		sarifText{clean(m.Definition)},
		sarifText{"cfq explain " + clean(metric)},
	}
}

func sarifLevel(f *gate.Finding) string {
	levels := []string{"error", "warning", "note"}
	if f.Verdict != gate.Fail {
		levels = levels[1:]
	}
	if f.Severity == gate.Warns {
		levels = levels[1:]
	}
	return levels[0]
}

// uriOf is a reference to a file, relative as the path is.
func uriOf(path string) string {
	u := url.URL{Path: filepath.ToSlash(path)}
	if filepath.IsAbs(path) {
		u.Scheme, u.Path = "file", "/"+strings.TrimPrefix(u.Path, "/")
	}
	return u.String()
}

// pathOf is the path by which the command named the quantized model: a report has only the file's name.
func pathOf(d *Document) string {
	at := slices.IndexFunc(d.Command, func(arg string) bool { return filepath.Base(arg) == d.Quantized.Name })
	if at < 0 {
		return d.Quantized.Name
	}
	return d.Command[at]
}

// flat writes the metrics of d as one JSON object of numbers, by ID, at the headline margin: what experiment trackers
// read. A metric without a value is not there.
func flat(w io.Writer, d *Document) error {
	values := map[string]eval.Float{}
	all := eval.Metrics()
	for i := range all {
		if v := all[i].Of(d.Result, d.Result.Headline()).Value; v.Defined() {
			values[all[i].ID()] = v
		}
	}
	return writeJSON(w, values)
}
