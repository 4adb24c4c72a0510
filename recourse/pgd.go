package recourse

import "context"

const pgdChunk = 2048 // people per model call

// FirstValidOptions are the settings of FirstValid; the zero value is the default.
type FirstValidOptions struct {
	Steps    int     // 0 = 100
	StepSize float64 // 0 = 0.2
	Margin   float64 // required logit margin; 0 = any favourable one
	Workers  int     // as in TeacherOptions
	Progress func(done, total int)
}

// FirstValid runs projected gradient descent on the target cross-entropy with a relaxed iterate and
// returns each person's first projected iterate that reaches the required margin ("PGD-first").
// Such points overshoot the boundary by up to one step, which is what makes promises at them look robust.
func FirstValid(ctx context.Context, m Model, a *ActionSet, x []float32, o FirstValidOptions) ([]Action, error) {
	n, err := checkArgs(m, a, x)
	if err != nil {
		return nil, err
	}
	if o.Steps <= 0 {
		o.Steps = 100
	}
	if o.StepSize == 0 {
		o.StepSize = 0.2
	}
	delta := make([]float32, len(x))
	actions := make([]Action, n)
	err = chunks(ctx, n, pgdChunk, o.Workers, o.Progress, func(ctx context.Context, lo, hi int) error {
		p := newPGD(m, a, lo, x[lo*a.dim:hi*a.dim], delta[lo*a.dim:hi*a.dim])
		for step := range o.Steps + 1 {
			err := p.step(ctx, func(i int, margin float32, g []float32) bool {
				act := &actions[lo+i]
				switch {
				case step == 0 && valid(margin, float32(o.Margin)):
					act.Status, act.Margin = AlreadyFavourable, float64(margin)
					return false
				case step > 0 && valid(margin, float32(o.Margin)):
					act.Status, act.Margin = Found, float64(margin)
					return false
				case step == 0:
					act.Status, act.Margin = NoneFound, float64(margin)
				}
				if step < o.Steps {
					p.relaxed(i, g, o.StepSize)
				}
				return true
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i := range actions {
		act := &actions[i]
		act.Delta = delta[i*a.dim : (i+1)*a.dim : (i+1)*a.dim]
		if act.Status == NoneFound {
			clear(act.Delta)
		}
		act.Cost = a.Person(i).Cost(row(x, i, a.dim), act.Delta)
		act.Point = make([]float32, a.dim)
		Point(act.Point, row(x, i, a.dim), act.Delta)
	}
	return actions, nil
}
