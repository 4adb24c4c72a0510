package eval

import (
	"context"
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cfq/internal/must"
	"cfq/recourse"
	"cfq/task"
)

func gathered(t testing.TB, parts [][]Record, margins []float64, attributes []task.Subgroup, l limits) *Records {
	t.Helper()
	joined := newRecords(margins, attributes, l)
	for _, part := range parts {
		one := newRecords(margins, attributes, l)
		for i := range part {
			must.Do(t, one.Add(&part[i]))
		}
		for x, err := range one.All() {
			must.Do(t, err)
			must.Do(t, joined.Add(x))
		}
		must.Do(t, one.Close())
	}
	return joined
}

func report(t testing.TB, records *Records, s Settings, file DataFile) string {
	t.Helper()
	r, err := Summarize(records, s, file, nil)
	must.Do(t, err)
	specs := []string{CalibrationGroup}
	for _, a := range records.Attributes {
		specs = append(specs, a.Feature)
	}
	if len(records.Attributes) > 1 {
		specs = append(specs, records.Attributes[0].Feature+"*"+records.Attributes[1].Feature)
	}
	if r.Groups, err = byGroups(r, GroupBy{Specs: specs, Min: 5}); err != nil {
		t.Fatal(err)
	}
	r.SensitivityToCopies = alternatives(t, r)
	text := must.Get(json.MarshalIndent(r, "", " "))(t)
	return string(text)
}

func crowdWithCopies(n int, seed uint64, ids bool) (*task.People, []bool) {
	rng := rand.New(rand.NewPCG(seed, 5))
	rows := task.AllRows(n)
	for i := range rows {
		if rng.IntN(5) == 0 {
			rows[i] = rng.IntN(n)
		}
	}
	people := crowd(n, seed).Subset(rows)
	sex, race := task.Subgroup{Feature: "sex", Values: []string{"f", "m"}},
		task.Subgroup{Feature: "race", Values: []string{"z", "y", "x"}}
	calibrated := make([]bool, n)
	for i, row := range rows {
		people.Rows[i], people.Lines[i] = i, i+2
		people.Content, people.Others = append(people.Content, uint64(row)+1), append(people.Others, nil)
		sex.Codes, race.Codes = append(sex.Codes, int32(rng.IntN(2))), append(race.Codes, int32(rng.IntN(4))-1)
		calibrated[i] = row%10 == 0
		if ids {
			people.IDs = append(people.IDs, "person "+strconv.Itoa(rng.IntN(2*n/3)))
		}
	}
	people.Subgroups = []task.Subgroup{sex, race}
	return people, calibrated
}

func TestNeitherOrderNorPartsCount(t *testing.T) {
	t.Parallel()
	const n = 40
	g := analytic{w: []float64{0.9, 0.6, 0.2}, gain: 1}
	g.bend = func(x []float32) float64 { return 0.2 * math.Sin(9*float64(x[2])) }
	around := Options{
		Radius: 0.1,
		Perturb: func(_ context.Context, points []float32, n int) ([][]Float, error) {
			eps := make([][]Float, n)
			for i := range eps {
				x := Float(math.Abs(float64(points[3*i+2])))
				eps[i] = []Float{x / 20, x / 10, undefined()}
			}
			return eps, nil
		},
	}
	x, _ := crowdWithCopies(n, 3, false)
	promises := map[string][]recourse.Action{"issued": given(n, x.X, 5)}
	for name, o := range map[string]Options{
		"solved": {}, "issued": {}, "one-sided": {OneSided: true, Sample: 25, Seed: 2},
		"around": around,
	} {
		for _, ids := range []bool{false, true}[:2-count(o.OneSided)] {
			people, calibrated := crowdWithCopies(n, 3, ids)
			o.Solver.Restarts = -1
			r := compareBatch(t, original, g, &Batch{People: people, Set: threeInputs(t), Promises: promises[name]}, o)
			records := listed(t, r)
			for i := range records {
				records[i].Calibrated = calibrated[i]
			}
			if name == "issued" && !ids { // some rows stand there again, for another promise
				for i := range n / 2 {
					records[i].ID, records[i+n/2].ID = RowID+strconv.Itoa(i), RowID+strconv.Itoa(i)
					records[i+n/2].Row, records[i+n/2].Hash = records[i].Row, records[i].Hash
				}
			}
			file := DataFile{Rows: n + 40, Unreadable: 20, LeftOut: 20, Unmatched: 3}
			usual := report(t, gathered(t, [][]Record{records}, r.Settings.Margins, people.Subgroups, usualLimits()), r.Settings,
				file)
			if want := "distinct rows without calibration rows"; strings.Contains(usual, want) == ids {
				t.Errorf("%s, IDs %t: alternatives: %t", name, ids, !ids)
			}
			must.Has(must.In(t, name), usual, "20 of 80 rows could not be read")
			rng := rand.New(rand.NewPCG(1, 2))
			few := limits{bytes: 1000, records: 15}
			got := gathered(t, shuffledParts(rng, records), r.Settings.Margins, people.Subgroups, few)
			text := report(t, got, r.Settings, file)
			must.Same(t, strings.Split(usual, "\n"), strings.Split(text, "\n"))
			must.Do(t, got.Close())
		}
	}
}

func shuffledParts(rng *rand.Rand, records []Record) (parts [][]Record) {
	mixed := slices.Clone(records)
	rng.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
	for len(mixed) > 0 {
		k := 1 + rng.IntN(len(mixed))
		parts, mixed = append(parts, mixed[:k]), mixed[k:]
	}
	return parts
}

func TestOrderOfOddRecords(t *testing.T) {
	t.Parallel()
	lists := rapid.Custom(oddRecords)
	for seed := range times(10, 1000) {
		records, s := lists.Example(seed), Settings{Margins: []float64{0, 0.5}, Confidence: 0.9, Issued: seed%2 == 0}
		group := []task.Subgroup{{Feature: "kind", Values: []string{"y", "x"}}}
		parts := shuffledParts(rand.New(rand.NewPCG(uint64(seed), 1)), records)
		want := report(t, gathered(t, [][]Record{records}, s.Margins, group, usualLimits()), s, DataFile{})
		got := report(t, gathered(t, parts, s.Margins, group, limits{500, 3}), s, DataFile{})
		must.Same(must.In(t, seed), strings.Split(want, "\n"), strings.Split(got, "\n"))
	}
}

func oddRecords(rt *rapid.T) (records []Record) {
	value := rapid.Map(rapid.IntRange(-3, 3), func(i int) Float { return Float(i) / 2 })
	promise := func() Promise {
		if rapid.IntRange(0, 3).Draw(rt, "made") == 0 {
			return none(rapid.SampledFrom([]recourse.Status{recourse.NoneFound, recourse.NoneExists}).Draw(rt, "status"))
		}
		return Promise{
			Status: recourse.Found, Cost: Float(rapid.IntRange(0, 2).Draw(rt, "cost")), Own: value.Draw(rt, "own"),
			Other: value.Draw(rt, "other"), Violation: rapid.SampledFrom([]string{"", "a", "b"}).Draw(rt, "violation"),
		}
	}
	for range rapid.IntRange(1, 12).Draw(rt, "records") {
		x := Record{
			Row: rapid.IntRange(0, 9).Draw(rt, "row"), Label: rapid.Int8Range(-1, 1).Draw(rt, "label"),
			Full: value.Draw(rt, "full"), Quant: value.Draw(rt, "quant"), Evaluated: rapid.Bool().Draw(rt, "evaluated"),
			ID: rapid.SampledFrom([]string{"", RowID + "1", RowID + "2"}).Draw(rt, "ID"),
			RowData: RowData{
				Hash: rapid.Uint64Range(1, 9).Draw(rt, "hash"), Calibrated: rapid.Bool().Draw(rt, "calibrated"),
				Groups: []string{rapid.SampledFrom([]string{"", "x", "y"}).Draw(rt, "group")},
			},
		}
		if p := promise(); p.Exists() {
			x.Issued = &p
		}
		for range 2 {
			if !x.Evaluated {
				break
			}
			x.First = promise()
			step := Step{Full: promise(), Quant: promise(), DirSim: undefined(), Overlap: undefined()}
			if step.Full.Exists() && step.Quant.Exists() {
				step.DirSim, step.Overlap = value.Draw(rt, "similarity"), value.Draw(rt, "overlap")
			}
			if rapid.Bool().Draw(rt, "perturbed") {
				step.Perturbed = []Float{value.Draw(rt, "eps"), 1, undefined()}
			}
			if rapid.Bool().Draw(rt, "transfer") {
				step.Transfer = &Transfer{Upper: value.Draw(rt, "upper")}
			}
			x.Steps = append(x.Steps, step)
		}
		records = append(records, x)
	}
	return records
}

func TestCopiesByTheDefinition(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		// Equal rows are evaluated alike, and the records of a row follow each other.
		n := rapid.IntRange(0, 200).Draw(rt, "rows")
		contents := rapid.IntRange(1, 20000).Draw(rt, "contents")
		named := rapid.IntRange(0, 40).Draw(rt, "named") == 0
		evaluatedOnes := rapid.IntRange(1, 50).Draw(rt, "evaluated")
		var records []Record
		for i := range n {
			x := Record{Row: i, Full: -1}
			x.Hash = 1 + uint64(rapid.IntRange(0, contents).Draw(rt, "content"))
			if x.Evaluated = x.Hash%50 < uint64(evaluatedOnes); x.Evaluated {
				x.Steps = []Step{{Full: none(recourse.NoneFound), Quant: none(recourse.NoneFound)}}
			}
			promises := 1
			if rapid.IntRange(0, 5).Draw(rt, "again") == 0 {
				x.ID, promises = RowID+strconv.Itoa(i), rapid.IntRange(1, 3).Draw(rt, "promises")
			}
			if named && i == n/2 {
				x.ID = "somebody"
			}
			records = append(records, slices.Repeat([]Record{x}, promises)...)
		}
		copies, ofThese, evaluated := 0, 0, 0
		seen := map[uint64]string{}
		for i := range records {
			x := &records[i]
			evaluated += count(x.Evaluated)
			if id, again := seen[x.Hash]; again && (x.ID == "" || x.ID != id) {
				copies++
				ofThese += count(x.Evaluated)
			}
			seen[x.Hash] = x.ID
		}
		want := 0
		if (float64(copies) > 0.01*float64(len(records)) || float64(ofThese) > 0.01*float64(evaluated)) &&
			!slices.ContainsFunc(records, func(x Record) bool { return x.ID == "somebody" }) {
			want = copies
		}
		for _, l := range []limits{usualLimits(), {bytes: 300, records: 10}} {
			r := gathered(t, [][]Record{records}, []float64{0}, nil, l)
			must.Same(rt, want, copiesIn(t, r))
			must.Do(rt, r.Close())
		}
	})
}

func copiesIn(t testing.TB, r *Records) int {
	t.Helper()
	c := newCopies(r)
	must.Do(t, r.Visit(c.visit))
	n, err := c.count()
	must.Do(t, err)
	must.Do(t, c.rows.Close())
	return n
}

func TestCopiesAmongThoseEvaluated(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ equal, evaluatedOfThem, evaluated, want int }{
		{2, 2, 99, 1},  // 1 of 300 rows, 1 of 99 evaluated
		{2, 2, 100, 0}, // 1 of 100 is not more than 1 %
		{2, 1, 20, 0},  // one of the two is not evaluated
		{5, 2, 20, 4},  // 4 of 300 rows
		{4, 3, 201, 0}, // 3 of 300 rows, 2 of 201
		{4, 4, 201, 3},
	} {
		records := make([]Record, 300)
		for i := range records {
			x := Record{Row: i, Full: -1, Evaluated: i >= 10 && i < 10+c.evaluated-c.evaluatedOfThem}
			x.Hash = uint64(i + 1)
			if i < c.equal {
				x.Hash, x.Evaluated = 1, i < c.evaluatedOfThem
			}
			if x.Evaluated {
				x.Steps = []Step{{Full: none(recourse.NoneFound), Quant: none(recourse.NoneFound)}}
			}
			records[i] = x
		}
		for range 2 {
			must.Same(t, c.want, copiesIn(t, gathered(t, [][]Record{records}, []float64{0}, nil, usualLimits())))
			slices.Reverse(records)
		}
	}
}

func TestComparisonOfManyRecords(t *testing.T) {
	t.Parallel()
	s := Settings{Margins: comparisonMargins, Confidence: 0.95}
	var want *Comparison
	for _, l := range []limits{usualLimits(), {bytes: 3000, records: 20}} {
		var results []*Result
		for model := range uint64(2) {
			list := imagined(400, 7, model+1, quality{noise: 0.1 + 0.2*float64(model)})
			for i := range list {
				list[i].ID = strconv.Itoa(i * i % 301)
				list[i].X = []float32{float32(i)}
				for k := range list[i].Steps {
					if p := &list[i].Steps[k].Quant; p.Exists() && model == 1 { // so that the records are of other sizes
						p.Point = []float32{float32(i) + 1}
					}
				}
			}
			r := must.Get(Summarize(gathered(t, [][]Record{list}, s.Margins, nil, l), s, DataFile{}, nil))(t)
			results = append(results, r)
		}
		got := comparison(t, ComparisonOptions{Draws: 100, Seed: 1}, results...)
		if want == nil {
			want = got
		}
		must.Same(t, want.Rows, got.Rows, sameFloat)
		for _, r := range results {
			must.Do(t, r.Close())
		}
	}
	if vd := cellsOf(want, "vd")[0]; vd.Test != mcNemarTest || vd.Delta.N == 0 {
		t.Errorf("%+v", vd)
	}
}

func TestMeasureInBatches(t *testing.T) {
	t.Parallel()
	g := analytic{w: []float64{0.9, 0.6, 0.2}, gain: 1}
	people, calibrated := crowdWithCopies(20, 4, false)
	promises := map[string][]recourse.Action{"issued": given(people.N, people.X, 5)}
	set := threeInputs(t)
	for name, o := range map[string]Options{
		"solved": {Margins: []float64{0, 0.25}}, "sample": {Sample: 10, Seed: 3}, "small": {Sample: 1000},
		"issued": {Sample: 12}, "one-sided": {OneSided: true},
	} {
		o.Solver.Restarts = -1
		whole := compareBatch(t, original, g, &Batch{People: people, Set: set, Promises: promises[name]}, o)
		list := listed(t, whole)
		for i := range list {
			list[i].Calibrated = calibrated[i]
		}
		once := gathered(t, [][]Record{list}, whole.Settings.Margins, people.Subgroups, usualLimits())
		want := report(t, once, whole.Settings, DataFile{})
		for _, size := range []int{5, 16} {
			source := func(_ context.Context, each func(b *Batch) error) error {
				for rows := range slices.Chunk(task.AllRows(people.N), size) {
					b := &Batch{People: people.Subset(rows), Set: set.Select(rows), Total: people.N}
					for _, i := range rows {
						b.Calibrated = append(b.Calibrated, calibrated[i])
						if name == "issued" {
							b.Promises = append(b.Promises, promises[name][i])
						}
					}
					if err := each(b); err != nil {
						return err
					}
				}
				return nil
			}
			all, settings, err := Measure(t.Context(), original, []recourse.Model{g, g}, source, o)
			must.Do(must.In(t, name, size), err)
			got := report(t, all[size%2], settings, DataFile{})
			must.Same(t, strings.Split(want, "\n"), strings.Split(got, "\n"))
			for _, records := range all {
				must.Do(t, records.Close())
			}
		}
	}
}
