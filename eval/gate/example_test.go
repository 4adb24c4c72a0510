package gate_test

import (
	"fmt"

	"cfq/eval"
	"cfq/eval/gate"
)

// A gate with one check: at most 2 % of the promises may break. Three of 640 break, and the upper bound of the share is
// within the limit.
func Example() {
	check, err := gate.ParseCheck("vd<=0.02")
	if err != nil {
		fmt.Println(err)
		return
	}
	result := &eval.Result{
		Settings: eval.Settings{Margins: []float64{0.1}, Confidence: 0.9},
		Margins:  []eval.AtMargin{{Margin: 0.1, Values: eval.Values{"vd": eval.NewRate(3, 640, 0.9).AsValue()}}},
	}
	report := gate.Judge(&gate.Gate{Checks: []gate.Check{check}}, result, nil)
	fmt.Println(report.Verdict)
	fmt.Println(report.Findings[0].Why)
	// Output:
	// PASS
	// promises that break: 3 of 640 (0.47 %); at most 1.3 % with confidence 95 %, within the limit of 2 %
}
