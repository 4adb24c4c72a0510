package promise

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/recourse"
)

func TestPage(t *testing.T) {
	t.Parallel()
	page := must.Get(os.ReadFile(filepath.Join("..", "..", "docs", "recourse.md")))(t)
	words := append(ownColumns(), colRole, colID, factual, counterfactual, taken+colStatus)
	for _, m := range []recourse.Method{recourse.Affine, recourse.Exhaustive, recourse.Search} {
		words = append(words, string(m))
	}
	for _, s := range recourse.Statuses() {
		words = append(words, s.String())
	}
	for _, w := range words {
		if !strings.Contains(string(page), "`"+w+"`") {
			t.Errorf("the page does not name `%s`", w)
		}
	}
}
