package autodiff

// selections lists the operators that choose between values, and the conditions
// they choose by.
func selections() []Operator {
	ops := []Operator{
		{
			Name: "Where", Since: 9, need: 3, Doc: "g where the condition holds, and g where it does not", infer: whereType,
			grads: []Rule{
				nil,
				func(c *Call, _ int) string { return c.keep(c.in(0), c.Grad()) },
				func(c *Call, _ int) string { return c.where(c.in(0), c.Scalar(c.Grad(), 0), c.Grad()) },
			},
		},
		{Name: "Clip", Since: 11, infer: like, grads: []Rule{
			func(c *Call, _ int) string { return c.keep(c.Op("Equal", []string{c.x(), c.y()}), c.Grad()) },
			func(c *Call, i int) string { return c.keep(c.Op("Less", []string{c.x(), c.in(i)}), c.Grad()) },
			func(c *Call, i int) string { return c.keep(c.Op("Greater", []string{c.x(), c.in(i)}), c.Grad()) },
		}, Doc: "g where min ≤ x ≤ max, both ends included; g below for min, above for max (min ≤ max is assumed)"},
		{
			Name: "Max", Since: 8, Doc: "g to the first input that equals y", infer: elementwise, grads: []Rule{first},
			variadic: true,
		},
		{
			Name: "Min", Since: 8, Doc: "g to the first input that equals y", infer: elementwise, grads: []Rule{first},
			variadic: true,
		},
	}
	for name, since := range map[string]int64{
		"Equal": 7, "Greater": 7, "GreaterOrEqual": 12, "Less": 7, "LessOrEqual": 12,
		"And": 7, "Or": 7, "Xor": 7, "Not": 1, "IsNaN": 9, "IsInf": 10,
	} {
		ops = append(ops, Operator{Name: name, Since: since, Doc: "a condition", infer: predicate})
	}
	return ops
}

// first passes the gradient to the first of the inputs that equal the output,
// so that it is counted once.
func first(c *Call, i int) string {
	var taken string
	for _, in := range c.Node.Inputs[:i] {
		eq := c.Op("Equal", []string{in, c.y()})
		if taken == "" {
			taken = eq
		} else {
			taken = c.Op("Or", []string{taken, eq})
		}
	}
	g := c.Grad()
	if i == len(c.Node.Inputs)-1 {
		if taken == "" {
			return g
		}
		return c.where(taken, c.Scalar(g, 0), g)
	}
	mine := c.Op("Equal", []string{c.in(i), c.y()})
	if taken != "" {
		mine = c.Op("And", []string{mine, c.Op("Not", []string{taken})})
	}
	return c.keep(mine, g)
}

func whereType(q *query) ([]Type, error) {
	out, err := elementwise(q)
	if err != nil {
		return nil, err
	}
	return []Type{{q.in[1].DType, out[0].Shape}}, nil
}
