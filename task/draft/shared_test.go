package draft

import (
	"path/filepath"
	"testing"

	"cfq/internal/realdata"
	"cfq/onnxio/classifier"
	"cfq/onnxio/codec"
	"cfq/onnxio/ort/orttest"
	"cfq/task"
)

// What is inferred from public data sets and their models decides as well as the task files that were made by hand.
func TestDraftsForPublicData(t *testing.T) {
	dir := realdata.Dir(t)
	e := orttest.Need(t)
	for _, c := range []struct {
		name, train, test, split string
		columns, features        []string
		favourable               string
	}{
		{
			name: "adult", train: "adult/adult.data.gz", test: "adult/adult.test.gz",
			columns: []string{
				"age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship", "race", "sex",
				"capital-gain", "capital-loss", "hours-per-week", "native-country", "income",
			},
		},
		{
			name: "german", train: "german/german.data", test: "german/german.data", split: "german/split.json", favourable: "1",
			columns: []string{
				"status", "duration", "history", "purpose", "amount", "savings", "employment", "installment-rate", "personal-status-sex", "debtors", "residence",
				"property", "age", "other-plans", "housing", "existing-credits", "job", "liable", "telephone", "foreign-worker", "class",
			},
		},
		{
			// Of 46 columns nobody can guess the 8 that the model was trained on; nor the filter, so that scales differ a little.
			name: "compas", train: "compas/compas-scores-two-years.csv.gz", test: "compas/compas-scores-two-years.csv.gz",
			features: []string{"age", "priors_count", "juv_fel_count", "juv_misd_count", "juv_other_count", "sex", "age_cat", "c_charge_degree"},
		},
		{name: "bank", train: "bank/bank-full.csv.gz", test: "bank/bank-full.csv.gz", split: "bank/split.json", favourable: "yes"},
		{name: "default", train: "default/UCI_Credit_Card.csv.gz", test: "default/UCI_Credit_Card.csv.gz", split: "default/split.json"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := codec.ReadFile(filepath.Join(dir, "models", c.name, "mlp2-s0.onnx"))
			if err != nil {
				t.Fatal(err)
			}
			model, err := classifier.Open(t.Context(), m, e, classifier.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer model.Close()
			var train, held task.ReadOptions
			if c.split != "" {
				rows, err := task.LoadRows(filepath.Join(dir, "models", c.split))
				if err != nil {
					t.Fatal(err)
				}
				train.Except, held.Only = rows, rows
			}
			table, err := Open(t.Context(), filepath.Join(dir, "data", c.train), c.columns, train)
			if err != nil {
				t.Fatal(err)
			}
			p, err := Infer(t.Context(), table, Options{Model: model, Favourable: c.favourable, Features: c.features, File: c.train})
			if err != nil {
				t.Fatal(err)
			}
			byHand, err := task.Load(filepath.Join("..", "..", "examples", "tasks", c.name+".yaml"))
			if err != nil {
				t.Fatal(err)
			}
			drafted := *p.Task // adult.test has what adult.data has not
			drafted.Data.Comment, drafted.Data.LabelSuffix, drafted.Data.Filter = byHand.Data.Comment, byHand.Data.LabelSuffix, byHand.Data.Filter
			have, r := score(t, model, &drafted, filepath.Join(dir, "data", c.test), held)
			want, _ := score(t, model, byHand, filepath.Join(dir, "data", c.test), held)
			t.Logf("accuracy %.4f, by hand %.4f", have.Accuracy, want.Accuracy)
			if have.Accuracy < want.Accuracy-0.002 || have.Rows != want.Rows {
				t.Errorf("accuracy %.4f on %d rows, by hand %.4f on %d\n%s", have.Accuracy, have.Rows, want.Accuracy, want.Rows, p.Text)
			}
			if r.Problems() > 0 {
				t.Errorf("the draft does not fit: %+v", r.Findings)
			}
			for i := range byHand.Features {
				if f := &byHand.Features[i]; f.Subgroup && p.Task.Features[i].Actionable {
					t.Errorf("%s can be changed", f.Name)
				}
			}
		})
	}
}

func score(t *testing.T, m Model, tk *task.Task, path string, o task.ReadOptions) (Score, *Report) {
	t.Helper()
	people, err := task.Read(t.Context(), path, tk, o)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Check(t.Context(), tk, people, m)
	if err != nil {
		t.Fatal(err)
	}
	return *r.Score, r
}

// A task file without its numbers gets them back.
func TestFillGivesBackWhatWasTakenAway(t *testing.T) {
	byHand, err := task.Load(filepath.Join("..", "..", "testdata", "loans", "task.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	bare := *byHand
	bare.Features = nil
	for _, f := range byHand.Features {
		f.Mean, f.Std, f.Shares = 0, 1, nil
		bare.Features = append(bare.Features, f)
	}
	p, err := Fill(t.Context(), "task.json", withoutScale(bare.JSON()), filepath.Join("..", "..", "testdata", "loans", "train.csv"), task.ReadOptions{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range byHand.Features {
		want, have := &byHand.Features[i], &p.Task.Features[i]
		near := func(a, b float64) bool { return a-b < 1e-5*(1+b) && b-a < 1e-5*(1+b) }
		if !near(have.Mean, want.Mean) || !near(have.Std, want.Std) || len(have.Shares) != len(want.Shares) {
			t.Errorf("%s: mean %v, std %v, shares %v; want %v, %v, %v", want.Name, have.Mean, have.Std, have.Shares, want.Mean, want.Std, want.Shares)
			continue
		}
		for j := range have.Shares {
			if !near(have.Shares[j], want.Shares[j]) {
				t.Errorf("%s: shares %v, want %v", want.Name, have.Shares, want.Shares)
			}
		}
	}
}
