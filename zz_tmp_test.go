package cfq_test

import (
	"context"
	"testing"

	"cfq"
	"cfq/engine/enginetest"
)

// Deployments differ from the quantized model by about as much as that from the
// original; more variation, more difference.
func TestZZNear(t *testing.T) {
	e := enginetest.Need(t)
	ctx := context.Background()
	m, tk, people := loans(t, "train.csv")
	people = few(people, 500)
	rms := func(d cfq.DeployOptions) (drift, quantization float64) {
		d.Models = 4
		if d.Batch == 0 {
			d.Batch = people.N // the default is for more people
		}
		f, err := cfq.OpenFleet(ctx, m, tk, people, cfq.Options{Refine: 4, Engine: e}, d)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		nominal := margins(t, f.Nominal, people.X)
		quantization = difference(margins(t, f.Full, people.X), nominal)
		for _, c := range f.Drawn {
			drift += difference(margins(t, c, people.X), nominal) / 4
		}
		return drift, quantization
	}
	little, _ := rms(cfq.DeployOptions{Rounding: -1, Jitter: 0.002, Batch: -1})
	usual, quantization := rms(cfq.DeployOptions{})
	much, _ := rms(cfq.DeployOptions{Rounding: 3, Jitter: 0.2})
	t.Log(little, usual, much, quantization)
	if !(0 < little && little < usual && usual < much) || usual > 4*quantization {
		t.Errorf("rms margin difference %v with little variation, %v as usual, %v with much; quantization makes %v", little, usual, much, quantization)
	}
}

