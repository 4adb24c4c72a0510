package draft

import (
	"slices"
	"strings"
	"testing"
)

func TestProtected(t *testing.T) {
	for name, want := range map[string]string{
		"sex": "sex", "SEX": "sex", "Gender": "sex", "applicant_gender": "sex", "personal-status-sex": "sex",
		"age": "age", "AgeGroup": "age", "age_cat": "age", "date_of_birth": "age",
		"race": "race", "ethnicity": "race", "RaceEthnicity": "race",
		"native-country": "nationality", "nationality": "nationality", "foreign-worker": "nationality", "citizenship": "nationality",
		"religion": "religion", "MARRIAGE": "marital", "marital_status": "marital", "dependants": "marital", "Dependents": "marital", "num_children": "marital", "relationship": "marital",
		"disability": "health", "pregnant": "health", "sexual_orientation": "sexual",
		"mortgage": "", "agency": "", "average_balance": "", "percentage": "", "wages": "", "sextant": "", "income": "", "trace": "", "brace": "", "language_level": "", "education": "",
	} {
		got := protected(&profile{name: name, numeric: true})
		if (got == "") != (want == "") || !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for values, want := range map[string]string{
		"Male Female": "sex or gender, by its values", "White Black Other": "race or ethnic origin, by its values", "red white": "", "single married divorced": "marital or family status, by its values",
	} {
		if got := protected(look(columnOf(strings.Fields(values)...))); got != want {
			t.Errorf("%s: %q, want %q", values, got, want)
		}
	}
}

func TestIdentifiers(t *testing.T) {
	for name, want := range map[string]bool{
		"id": true, "ID": true, "customer_id": true, "customerId": true, "CustomerID": true, "Unnamed: 0": true, "index": true, "uuid": true,
		"paid": false, "bid": false, "idle": false, "width": false, "period": false,
	} {
		if identifier(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}

func TestFindLabel(t *testing.T) {
	for _, c := range []struct {
		name              string
		columns           []string // name: fields
		label, favourable string
		column, value     string // "" for none
		err               string
	}{
		{"last column", []string{"a: 1 2 3", "decision: approved refused refused"}, "", "", "decision", "approved", ""},
		{"known name, not the last", []string{"income: <=50K >50K <=50K", "b: 1 2 3"}, "", "", "income", ">50K", ""},
		{"full stops", []string{"income: <=50K. >50K. <=50K"}, "", "", "income", ">50K", ""},
		{"a bad outcome", []string{"b: 1 2 3", "two_year_recid: 0 1 1"}, "", "", "two_year_recid", "0", ""},
		{"a good outcome", []string{"b: 1 2 3", "approved: 0 1 1"}, "", "", "approved", "1", ""},
		{"not obvious", []string{"b: 1 2 3", "y: yes no no"}, "", "", "y", "", ""},
		{"said", []string{"b: 1 2 3", "y: yes no no"}, "", "no", "y", "no", ""},
		{"named, as a number", []string{"class: 1 2 1", "b: 1 2 3"}, "class", "1.0", "class", "1", ""},
		{"protected last column", []string{"a: 1 2 3", "sex: male female male"}, "", "", "", "", ""},
		{"nothing", []string{"a: 1 2 3"}, "", "", "", "", ""},
		{"nothing, but a value", []string{"a: 1 2 3"}, "", "yes", "", "", "no column looks like"},
		{"no such column", []string{"a: 1 2 3", "b: 1 2 1"}, "c", "", "", "", `no column "c"`},
		{"no such value", []string{"b: 1 2 1"}, "b", "3", "", "", "its values are 1, 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var all []*profile
			for _, text := range c.columns {
				name, fields, _ := strings.Cut(text, ": ")
				col := columnOf(strings.Fields(fields)...)
				col.name = name
				all = append(all, look(col))
			}
			got, err := findLabel(all, c.label, c.favourable)
			if (err != nil) != (c.err != "") || (err != nil && !strings.Contains(err.Error(), c.err)) {
				t.Fatalf("%v, want %q", err, c.err)
			}
			if c.column == "" {
				if got != nil {
					t.Errorf("%+v, want none", got)
				}
				return
			}
			if got == nil || got.column != c.column || got.favourable != c.value {
				t.Errorf("%+v, want %s = %s", got, c.column, c.value)
			}
		})
	}
}

func TestLabels(t *testing.T) {
	c := columnOf("<=50K", ">50K.", "?", ">50K", "", "<=50K.")
	all, err := findLabel([]*profile{look(c)}, "c", ">50K")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := all.labels(c, nil), []int8{0, 1, -1, 1, -1, 0}; !slices.Equal(got, want) || all.suffix != "." {
		t.Errorf("%v (%q), want %v", got, all.suffix, want)
	}
}
