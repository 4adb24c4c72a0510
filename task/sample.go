package task

import (
	"cmp"
	"math/rand/v2"
	"slices"
)

// sampler keeps a uniform sample of a stream of people (algorithm R): the first most fill it, and the n-th of all takes a random one's
// place with probability most/n. Memory does not grow with the stream.
type sampler struct {
	most, seen int
	rng        *rand.Rand
}

func newSampler(o ReadOptions) *sampler {
	if o.Most <= 0 {
		return nil
	}
	return &sampler{most: o.Most, rng: rand.New(rand.NewPCG(o.Seed, 0x5a3b))}
}

// sample decides on the person that was read last: whether they stay, in whose place, or not.
func (rd *reader) sample() {
	s, p := rd.sampler, rd.people
	if s == nil {
		return
	}
	s.seen++
	if s.seen <= s.most {
		return
	}
	last := p.N - 1
	if i := s.rng.IntN(s.seen); i < s.most {
		copy(p.X[i*p.Dim:(i+1)*p.Dim], p.X[last*p.Dim:])
		move(p.Lines, i)
		move(p.Rows, i)
		move(p.Labels, i)
		move(p.Kept, i)
		move(p.Hashes, i)
		for k := range p.Subgroups {
			move(p.Subgroups[k].Codes, i)
		}
	}
	p.N, p.Thinned = last, p.Thinned+1
	p.X = p.X[:last*p.Dim]
	p.Lines, p.Rows, p.Labels = p.Lines[:last], p.Rows[:last], p.Labels[:last]
	if p.Kept != nil {
		p.Kept = p.Kept[:last]
	}
	if p.Hashes != nil {
		p.Hashes = p.Hashes[:last]
	}
	for k := range p.Subgroups {
		p.Subgroups[k].Codes = p.Subgroups[k].Codes[:last]
	}
}

// move puts the last element at i.
func move[T any](s []T, i int) {
	if len(s) > 0 {
		s[i] = s[len(s)-1]
	}
}

// inOrder brings a sample, whose people stand where chance put them, into the order of the file.
func (p *People) inOrder() {
	if p.Thinned == 0 {
		return
	}
	order := make([]int, p.N)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(p.Rows[a], p.Rows[b]) })
	q := p.Subset(order)
	p.X, p.Lines, p.Rows, p.Labels, p.Kept, p.Hashes, p.Subgroups = q.X, q.Lines, q.Rows, q.Labels, q.Kept, q.Hashes, q.Subgroups
}
