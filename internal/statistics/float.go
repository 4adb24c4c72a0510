package statistics

import (
	"encoding/json"
	"math"
)

// Float is a number that may be undefined (NaN): the mean of no numbers, the margin of a promise that does not exist.
// JSON knows no NaN and no infinity; both become null there.
type Float float64

// Defined reports whether x is a finite number.
func (x Float) Defined() bool { return !math.IsNaN(float64(x)) && !math.IsInf(float64(x), 0) }

// MarshalJSON writes a number, or null when x is not Defined.
func (x Float) MarshalJSON() ([]byte, error) {
	if !x.Defined() {
		return []byte("null"), nil
	}
	return json.Marshal(float64(x))
}

// UnmarshalJSON reads what MarshalJSON wrote; null becomes NaN.
func (x *Float) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*x = Float(math.NaN())
		return nil
	}
	return json.Unmarshal(data, (*float64)(x))
}
