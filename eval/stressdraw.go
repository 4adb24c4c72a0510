package eval

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"cfq/internal/message"
	"cfq/task"
)

// mixed returns the positions of the people in the group of a mix, and of all others; those without a value are others.
func mixed(people *task.People, s *Stress) (in, out []int, err error) {
	g, err := attribute(people.Subgroups, s.feature)
	if err != nil {
		return nil, nil, err
	}
	code := slices.Index(g.Values, s.value)
	if code < 0 {
		return nil, nil, fmt.Errorf("%q is no value of %s%s", s.value, s.feature, message.DidYouMean(s.value, g.Values))
	}
	for i, c := range g.Codes {
		if int(c) == code {
			in = append(in, i)
		} else {
			out = append(out, i)
		}
	}
	if len(in) == 0 && s.share > 0 {
		return nil, nil, fmt.Errorf("there is nobody with %s=%s in the data", s.feature, s.value)
	}
	return in, out, nil
}

// withOutcome returns the positions of the people whose outcome is known, by what it is.
func withOutcome(people *task.People) (unfavourable, favourable []int, err error) {
	for i, l := range people.Labels {
		switch l {
		case 0:
			unfavourable = append(unfavourable, i)
		case 1:
			favourable = append(favourable, i)
		}
	}
	if len(unfavourable)+len(favourable) == 0 {
		return nil, nil, errors.New("no outcome is known")
	}
	return unfavourable, favourable, nil
}

// composition returns how many of a and how many of b people to take so that the first are a share of all, to the nearest person, and no
// more could be taken.
func composition(a, b int, share float64) (fromA, fromB int) {
	for n := a + b; n > 0; n-- {
		fromA = int(math.Round(share * float64(n)))
		if fromA <= a && n-fromA <= b {
			return fromA, n - fromA
		}
	}
	return 0, 0
}

// draw summarises the largest part of the people of whom those at positions in are a share and the others are out. Who is drawn depends on the
// seed; more of the same are always a superset.
func (t *trial) draw(in, out []int, share float64, name string) (*Result, string) {
	a, b := composition(len(in), len(out), share)
	rng := rand.New(rand.NewPCG(t.o.Seed, 0xd7a3))
	var rows []int
	for _, side := range []struct {
		from []int
		take int
	}{{in, a}, {out, b}} {
		all := slices.Clone(side.from)
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		rows = append(rows, all[:side.take]...)
	}
	slices.Sort(rows)
	records := make([]Record, len(rows))
	for i, row := range rows {
		records[i] = t.base.Records[row]
	}
	all := len(in) + len(out)
	about := fmt.Sprintf("people with %s are %s in place of %s: %d of %d are drawn", name, percent(a, a+b), percent(len(in), all), a+b, all)
	return Summarize(records, t.base.Settings), about
}

func percent(k, n int) string {
	if n == 0 {
		return "0 %"
	}
	return strconv.FormatFloat(100*float64(k)/float64(n), 'g', 3, 64) + " %"
}

// doubled is the share of a people among them and b others when half of the others are left out, rounded so that it can be read.
func doubled(a, b int) float64 {
	share := 2 * float64(a) / float64(2*a+b)
	return math.Round(share*1e4) / 1e4
}
