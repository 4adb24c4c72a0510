package task

// Raw returns the raw value of a Numeric or Ordinal feature's model input: the shortest decimal that ToInput takes back to it.
func (f *Feature) Raw(x float32) float64 { return f.shortest(f.FromInput(x), x) }
