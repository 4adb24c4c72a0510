package report

import (
	"bytes"
	"encoding/json"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The file is read without the types that wrote it: what services for code scanning require of it.
func TestSARIF(t *testing.T) {
	d := complete()
	d.Quantized.Name, d.Command = "q model.onnx", []string{"gate", "m.onnx", "out/q model.onnx"}
	twice := d.Gate.Findings[1] // a check of two limits
	twice.Limit = "increase <= 0.001"
	d.Gate.Findings = append(d.Gate.Findings, twice)
	var b bytes.Buffer
	if err := SARIF(&b, d); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Schema  string `json:"$schema"`
		Version string
		Runs    []struct {
			Tool struct {
				Driver struct {
					Name  string
					Rules []struct {
						ID               string
						ShortDescription struct{ Text string }
					}
				}
			}
			Results []struct {
				RuleID              string
				RuleIndex           int
				Level               string
				Message             struct{ Text string }
				PartialFingerprints map[string]string
				Suppressions        []struct{ Kind, Justification string }
				Locations           []struct {
					PhysicalLocation struct {
						ArtifactLocation struct{ URI string }
						Region           struct{ StartLine int }
					}
				}
			}
		}
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Version != "2.1.0" || !strings.Contains(got.Schema, "sarif") || len(got.Runs) != 1 {
		t.Fatalf("%+v", got)
	}
	run := got.Runs[0]
	prints := map[string]bool{}
	var found []string
	for _, r := range run.Results {
		rule := run.Tool.Driver.Rules[r.RuleIndex]
		if rule.ID != r.RuleID || rule.ShortDescription.Text == "" {
			t.Errorf("the rule of %s is %+v", r.RuleID, rule)
		}
		if len(r.Locations) != 1 {
			t.Fatalf("%d locations", len(r.Locations))
		}
		at := r.Locations[0].PhysicalLocation
		if at.ArtifactLocation.URI != "out/q%20model.onnx" || at.Region.StartLine != 1 {
			t.Errorf("%+v", at)
		}
		prints[r.PartialFingerprints["cfqCheck/v1"]] = true
		text := r.Level + " " + r.RuleID
		for _, s := range r.Suppressions {
			text += ", " + s.Kind + ": " + s.Justification
		}
		found = append(found, text)
	}
	want := []string{
		"error vd", "warning vd", "warning vd",
		"warning crg.abs_mean, external: known since May & accepted (risk, until 2027-01-31)", "error vd",
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Error(diff)
	}
	if len(prints) != len(found) || prints[""] {
		t.Errorf("%d fingerprints of %d results", len(prints), len(found))
	}
	if SARIF(io.Discard, loans()) == nil {
		t.Error("there is no gate")
	}
}

// The view agrees with the JSON report, at the headline margin, and has names that trackers of experiments take.
func TestFlat(t *testing.T) {
	d := loans()
	read := func() map[string]float64 {
		got := map[string]float64{}
		data := jsonOf(t, func(w *bytes.Buffer, d *Document) error { return flat(w, d) }, d)
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	got := read()
	at := d.Result.Margins[d.Result.Headline()]
	for id, want := range map[string]float64{
		"vd": float64(at.VD.Value), "crg.median": float64(at.CRG.Median.Value),
		"accuracy_drop": float64(d.Result.Decisions.AccuracyDrop.Value),
	} {
		if got[id] != want {
			t.Errorf("%s is %g, want %g", id, got[id], want)
		}
	}
	for id := range got {
		if !regexp.MustCompile(`^[a-zA-Z0-9_.]+$`).MatchString(id) {
			t.Errorf("%q", id)
		}
	}
	d.Result.Footprint = nil
	if _, there := read()["bytes"]; there {
		t.Error("a metric without a value is there")
	}
}
