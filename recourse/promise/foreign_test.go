package promise

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/recourse"
	"cfq/task"
)

const columns = "age,hours-per-week,gain,work,member"

func said(f *File) []string {
	var out []string
	for i := range f.Promises {
		out = append(out, fmt.Sprintf("%d->%d", f.Promises[i].Line, f.Promises[i].Person))
	}
	for _, p := range f.Problems {
		out = append(out, "bad "+p.Error())
	}
	for _, p := range f.Lost {
		out = append(out, "lost "+p.Error())
	}
	return append(out, f.Notes...)
}

type summed struct{}

func (summed) String() string { return "summed" }

func (summed) Codes(_ context.Context, x []float32) (z []float32, err error) {
	for i := 0; i < len(x); i += 2 {
		z = append(z, x[i]+x[i+1])
	}
	return z, nil
}

func TestRolesWithCodes(t *testing.T) {
	t.Parallel()
	tk, _ := parse(t, `version: 1
data: {label: y, favourable: a}
features: [{name: p, kind: numeric}, {name: q, kind: numeric}]
latent: {encoder: e.onnx, decoder: d.onnx, size: 1}
`)
	tk.Latent.Use(summed{})
	data := people(t, tk, "p,q,latent.0,y\n1,2,7,b\n3,4,7,b\n")
	for key, known := range map[string][]*task.People{"row": {data, nil}, "id": {nil}} {
		for _, known := range known {
			f, err := Read(t.Context(), file(t, key+`,role,p,q,latent.0
0,factual,1,2,7
0,counterfactual,1,2,9
1,factual,3,4,8
1,counterfactual,3,4,5
`), tk, known)
			if err != nil || len(f.Promises) != 2 || len(f.Problems) > 0 {
				t.Fatalf("%s: %v %+v", key, err, f)
			}
			if !slices.Equal(f.People.X, []float32{1, 2, 3, 3, 4, 7}) ||
				f.Promises[0].Point[2] != 9 || f.Promises[1].Point[2] != 5 {
				t.Errorf("%s: %v %v", key, f.People.X, f.Promises)
			}
		}
	}
}

func TestForeignFiles(t *testing.T) {
	t.Parallel()
	tk, _ := parse(t, jobs)
	data := people(t, tk, fourPeople)
	fact := []string{"30,40,0,Private,no", "41,38,1000,self,yes", "52,20,12.5,,no", `63,60,0,"State, gov",no`}
	for name, c := range map[string]struct {
		text string
		own  bool // the file's factual rows are the people
		want []string
	}{
		"row numbers": {
			text: "row," + columns + "\n3," + fact[3] + "\n0,30,45,0,Private,no\n0.0,30,46,0,Private,no\n9," + fact[0] +
				"\nx," + fact[0] + "\n1,41,38,much,self,yes\n",
			want: []string{
				"2->3", "3->0", "4->0", `bad line 6, column "row": "x" is not a row number; rows are numbered from 0`,
				`bad line 7, column "gain": "much" is not a number`,
				`lost line 5, column "row": no person of the data has the row number 9`,
			},
		},
		"pairs": {
			text: columns + ",Role,ID\n30,45,0,Private,no,counterfactual,ann\n" + fact[0] + ",factual,ann\n" + fact[1] +
				",factual,bob\n41,40,1000,self,yes,Counterfactual,bob\n" +
				"41,42,1000,self,yes,counterfactual,bob\n" + fact[2] + ",counterfactual,cid\n" + fact[0] + ",other,ann\n",
			own: true,
			want: []string{
				"2->0", "5->1", "6->1",
				`bad line 8, column "role": unknown role "other": want factual or counterfactual`,
				`lost line 7, column "id": there is no factual row with id "cid"`,
			},
		},
		"numbered pairs beside the data": {
			text: columns + ",role,row\n" + fact[3] + ",factual,3\n63,70,0,self,no,counterfactual,3\n" + fact[3] +
				",factual,1\n41,39,1000,self,yes,counterfactual,1\n" + fact[3] + ",factual,3\n",
			want: []string{
				"3->3", `bad line 4, column "row": row 1 of the data (line 3) has other values than this factual row`,
				`lost line 5, column "row": the person of row 1 of the data is not the one who is meant, see their factual row`,
			},
		},
		"words and costs of another program": {
			text: "row,promise.status,cost," + columns + "\n0,success,1,30,45,0,Private,no\n1,success,2," + fact[1] + "\n",
			want: []string{"2->0", "3->1"},
		},
		"columns of its own left out": {
			text: "row,promise.status," + columns + "\n1,already favourable," + fact[1] + "\n0,found,30,45,0,Private,no\n",
			want: []string{"3->0"},
		},
		"two factual rows": {
			text: columns + ",role,id\n" + fact[0] + ",factual,a\n" + fact[1] + ",factual,a\n" + fact[0] + ",factual,a\n" +
				"30,45,0,Private,no,counterfactual,a\n",
			own: true,
			want: []string{"5->0", `bad line 3, column "id": line 2 is another factual row of the same person, with ` +
				`other values; it counts`},
		},
		"model inputs": {
			text: "row,age,hours,gain,work=Private,\"work=State, gov\",work=self,member\n1,0.5,0,0,1,0,0,0\n" +
				"0,0.5,0,0,0.9,0.1,0,0\n",
			want: []string{"2->1", `bad line 3, column "work": the inputs of a one-hot group are 0 and at most one 1`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			given := data
			if c.own {
				given = nil
			}
			f := must.Get(Read(t.Context(), file(t, c.text), tk, given))(t)
			must.Same(t, c.want, said(f))
			checkCounts(t, f)
			if c.own && (f.People.N != 2-strings.Count(name, "two") || !slices.Equal(f.X(&f.Promises[0]), data.X[:data.Dim])) {
				t.Errorf("people %+v", f.People)
			}
		})
	}
}

func checkCounts(t testing.TB, f *File) {
	t.Helper()
	n := len(f.Promises) + f.Factual + f.Failed + f.Missing
	for _, k := range f.Unpromised {
		n += k
	}
	must.Same(t, f.Rows, n)
}

func TestReadErrors(t *testing.T) {
	t.Parallel()
	tk, _ := parse(t, jobs)
	data := people(t, tk, fourPeople)
	for name, c := range map[string]struct {
		text string
		data *task.People
		want string
	}{
		"other delimiter": {
			strings.ReplaceAll("row,"+columns, ",", ";") + "\n0;30;40;0;Private;no\n", data,
			`one column only, "row;age`,
		},
		"no numbers": {
			columns + "\n30,40,0,Private,no\n", data,
			`no column says whose promise a row is: want a column "row" with row numbers of the data, or, without data, ` +
				`columns "role" and "id"`,
		},
		"no factual rows": {
			"role,id," + columns + "\ncounterfactual,2,30,40,0,Private,no\n", nil,
			"no row has the role factual",
		},
		"no people": {"row," + columns + "\n0,30,40,0,Private,no\n", nil, "does not say what its people are like"},
		"a typo": {
			"row,age,hours-per-weak,gain,work,member\n0,30,40,0,Private,no\n", data,
			`there is no column "hours-per-week" (feature hours); did you mean "hours-per-weak"?`,
		},
		"nothing usable": {"row," + columns + "\n0,30,40,0,Public,no\n", data, "none of 1 rows can be read"},
		"no rows":        {"row," + columns + "\n", data, "the file has no data rows"},
		"empty":          {"\n\n", data, "the file is empty"},
	} {
		_, err := Read(t.Context(), file(t, c.text), tk, c.data)
		must.Fail(must.In(t, name), err, c.want)
	}
	must.Fail(t, must.Err(Read(t.Context(), "nowhere.csv", tk, data)), "")
}

// TestOwnFileDamaged: rows whose status, cost or place cannot be understood are said. The file has no column
// method: that is never needed.
func TestOwnFileDamaged(t *testing.T) {
	t.Parallel()
	tk, _ := parse(t, strings.ReplaceAll(jobs, "label: status", "label: outcome"))
	data := people(t, tk, strings.ReplaceAll(fourPeople, "status", "outcome"))
	f := must.Get(Read(t.Context(), file(t, "row,line,status,cost,margin,before,action,"+columns+"\n"+
		"0,2,found,1,2,-1,,30,45,0,Private,no\n"+
		"1,7,found,1,,,,41,39,1000,self,yes\n"+
		"2,4,fund,1,2,-1,,52,21,12.5,,no\n"+
		"3,5,found,cheap,2,-1,,63,61,0,self,no\n"), tk, data))(t)
	want := []string{
		"2->0",
		"3->1",
		`bad line 4, column "status": "fund" is no status; there are [already favourable found none found none exists]`,
		`bad line 5, column "cost": "cheap" is not a number`,
		"1 promises were made from other lines of the data than their rows are on now; are these the data that they " +
			"were made from?",
	}
	must.Same(t, want, said(f))
	checkCounts(t, f)
	data.NoLines = true // as in Parquet, whose rows are the same people
	f = must.Get(Read(t.Context(), file(t, "row,line,"+columns+"\n1,3,41,39,1000,self,yes\n"), tk, data))(t)
	must.Same(t, []string{"2->1"}, said(f))
}

func TestJudge(t *testing.T) {
	t.Parallel()
	tk, set := parse(t, jobs)
	data := people(t, tk, fourPeople)
	f := must.Get(Read(t.Context(), file(t, "row,"+columns+"\n"+
		"0,30,45,0,\"State, gov\",no\n"+ // fine
		"0,30,61,0,self,no\n"+ // too many hours, and no such transition
		"1,42,38.5,1000,self,yes\n"+ // nobody chooses an age or half an hour
		"2,52,20,12.5,,no\n"), tk, data))(t) // nothing changes
	m := linear{w: []float32{0, 2, 0, 0, 0, 0, 0}, b: 0}
	verdicts := must.Get(Judge(t.Context(), m, set, f))(t)
	var got []string
	for _, v := range verdicts {
		text := fmt.Sprintf("%.3f", v.Margin)
		for _, b := range v.Broken {
			text += fmt.Sprintf(" %s/%s", b.Feature, b.Constraint)
		}
		got = append(got, text)
	}
	// 2 (hours - 40.437) / 12.347
	want := []string{
		"0.739", "3.331 hours/bounds, direction or largest change work/transitions",
		"-0.314 age/immutable hours/step", "-3.310",
	}
	must.Same(t, want, got)
	var tally Tally
	tally.Add(f, verdicts)
	counts := tally.Broken()
	if tally.Infeasible != 2 || tally.Promises != 4 || tally.Invalid != 2 || len(counts) != 4 || counts[0].Promises != 1 {
		t.Errorf("%+v, %v", tally, counts)
	}
	// The weight of a numeric input is 1/(1+0.001), a switch costs the mean of the weights of its values.
	must.Near(t, 5/12.347/1.001+1/(math.Sqrt(2)/3+0.001), verdicts[0].Cost, 1e-6)
	actions, further := f.Actions(verdicts)
	if further != 1 || actions[0].Cost != verdicts[0].Cost || actions[0].Status != recourse.Found ||
		actions[3].Status != recourse.NoneFound || len(actions) != 4 {
		t.Errorf("%d further, %+v", further, actions)
	}
	m.b = -2 // now only the dearer promise of the first person holds
	verdicts = must.Get(Judge(t.Context(), m, set, f))(t)
	if actions, _ = f.Actions(verdicts); actions[0].Cost != verdicts[1].Cost || actions[1].Margin >= 0 {
		t.Errorf("%+v", actions[:2])
	}
	var sum Tally
	sum.Add(f, verdicts)
	if d := sum.Difference(); !math.IsNaN(d) {
		t.Errorf("a file that claims nothing differs by %v", d)
	}
	// What holds for one person alone is what their promises are held against and priced by.
	dear := tk.Features[1]
	dear.Weight, dear.MaxIncrease = 3, 2
	own := must.Get(set.Override([]task.Override{{Row: 0, Feature: 1, With: dear.Action}}))(t)
	theirs := must.Get(Judge(t.Context(), m, own, f))(t)
	if c := theirs[0].Cost - verdicts[0].Cost; math.Abs(c-2*5/12.347/1.001) > 1e-6 || len(theirs[0].Broken) != 1 ||
		theirs[3].Cost != verdicts[3].Cost {
		t.Errorf("with constraints of their own: %+v, %v dearer", theirs[0], c)
	}
	must.Fail(t, must.Err(Judge(t.Context(), linear{w: []float32{1}}, set, f)), "")
	if _, err := Judge(t.Context(), failing{m}, set, f); !errors.Is(err, errFailing) {
		t.Errorf("error %v", err)
	}
}

var errFailing = errors.New("no model")

type failing struct{ recourse.Model }

func (failing) Margins(context.Context, []float32) ([]float32, error) { return nil, errFailing }
