package report

import "testing"

func TestMostUsed(t *testing.T) {
	list := []FeatureCount{{"income", 996, 0.996}, {"debt", 8, 0.008}, {"months", 4, 0.004}, {"savings", 1, 0.001}}
	if got, want := mostUsed(list), "income 100 %, debt 1 %, months <1 %, savings <1 %"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
