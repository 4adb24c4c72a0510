package draft

import (
	"slices"
	"strings"
	"unicode"
)

// wordsOf splits a name such as native-country, AgeGroup or age_cat into lower-case words.
func wordsOf(name string) []string {
	var out []string
	var word []rune
	flush := func() {
		if len(word) > 0 {
			out = append(out, strings.ToLower(string(word)))
		}
		word = word[:0]
	}
	lower := false
	for _, r := range name {
		switch {
		case !unicode.IsLetter(r):
			flush()
			lower = false
			continue
		case unicode.IsUpper(r) && lower:
			flush()
		}
		lower = unicode.IsLower(r)
		word = append(word, r)
	}
	flush()
	return out
}

// hasWord says whether a word of the name is one of whole, or starts with one of stems.
func hasWord(name string, whole, stems []string) bool {
	for _, w := range wordsOf(name) {
		if slices.Contains(whole, w) || slices.ContainsFunc(stems, func(s string) bool { return strings.HasPrefix(w, s) }) {
			return true
		}
	}
	return false
}

// protected says which kind of attribute that nobody can be asked to change a column seems to be; "" when nothing speaks for one.
func protected(p *profile) string {
	for _, a := range []struct {
		what         string
		whole, stems []string
		values       []string // at least two of these among the values
	}{
		{"sex or gender", []string{"sex", "male", "female"}, []string{"gender"}, []string{"male", "female", "man", "woman", "men", "women"}},
		{"age", []string{"age", "ages", "dob", "birthday", "birthdate", "birth", "born", "agegroup"}, []string{"elder"}, nil},
		{"race or ethnic origin", []string{"race", "races", "hispanic", "latino", "tribe", "caste"}, []string{"racial", "ethni"}, []string{"white", "black", "asian", "hispanic", "caucasian", "african-american"}},
		{
			"nationality or origin",
			[]string{"native", "country", "nation", "migrant"},
			[]string{"national", "foreign", "citizen", "immigra", "birthplace"},
			nil,
		},
		{"religion", []string{"faith", "church"}, []string{"religi", "denomination"}, []string{"christian", "muslim", "jewish", "hindu", "buddhist"}},
		{
			"marital or family status",
			[]string{"child", "children", "kids", "wife", "spouse", "family", "widow", "civil"},
			[]string{"marital", "married", "marri", "husband", "depend", "divorc", "relationship", "parent"},
			[]string{"married", "divorced", "widowed", "husband", "wife"},
		},
		{"health or disability", []string{"health", "illness"}, []string{"disab", "handicap", "pregnan", "genetic", "diagnos"}, nil},
		{"sexual orientation", []string{"gay", "lgbt"}, []string{"orientation"}, nil},
	} {
		if hasWord(p.name, a.whole, a.stems) {
			return a.what
		}
		if n := 0; !p.numeric && len(p.texts) <= 50 {
			for _, s := range p.texts {
				if slices.Contains(a.values, strings.ToLower(strings.TrimSpace(s))) {
					n++
				}
			}
			if n >= 2 {
				return a.what + ", by its values"
			}
		}
	}
	return ""
}

// identifier says whether a name is one of a number that only tells rows apart.
func identifier(name string) bool {
	low := strings.ToLower(name)
	return hasWord(name, []string{"id", "ids", "uuid", "guid", "ssn", "index", "idx", "iban", "email", "phone"}, []string{"identif"}) ||
		strings.HasPrefix(low, "unnamed: ") || strings.HasSuffix(low, "id") && (strings.HasSuffix(name, "Id") || strings.HasSuffix(name, "ID"))
}

// sampling says whether a name is one of a weight that a survey gave a row.
func sampling(name string) bool {
	low := strings.ToLower(name)
	return slices.Contains([]string{"fnlwgt", "weight", "wgt", "sample_weight", "sampling_weight", "row_weight"}, low)
}

// bad says whether the outcome that a label is named for is one that people do not want; good, that they do.
func outcome(name string) (bad, good bool) {
	bad = hasWord(name, []string{"default", "risk", "fraud", "late", "bad", "arrest", "loss"},
		[]string{"default", "recid", "reoffen", "delinq", "churn", "reject", "refus", "denied", "denial", "bankrupt", "readmi", "dropout", "attrition", "violat", "dlq", "seriousdlq"})
	good = hasWord(name, []string{"income", "good", "hired", "hire", "offer", "pass", "passed", "success", "repaid", "paid", "salary"},
		[]string{"approv", "accept", "grant", "admi", "eligib", "repay", "creditworth", "promot", "qualif", "award"})
	return bad, good
}
