package ptq_test

import (
	"testing"

	"cfq/ptq"
)

// Every setting has a place of its own in the options, and every method a value of it that
// is in the setting's table.
func TestSettings(t *testing.T) {
	t.Parallel()
	var o ptq.Options
	places := map[*string]string{} // names of settings by where they stand
	for _, s := range ptq.Settings() {
		place := s.Of(&o)
		if other, taken := places[place]; taken {
			t.Errorf("%s stands where %s does", s.Name, other)
		}
		places[place] = s.Name
		for _, m := range ptq.Methods() {
			for _, of := range ptq.Settings() {
				*of.Of(&o) = *of.Of(&m.Defaults)
			}
			if err := o.Check(); err != nil {
				t.Errorf("method %s: %v", m.Name, err)
			}
		}
		*place = "none of these"
		if err := o.Check(); err == nil {
			t.Errorf("%s may be anything", s.Name)
		}
		*place = ""
	}
}
