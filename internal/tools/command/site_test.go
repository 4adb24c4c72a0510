package command

import (
	"context"
	"encoding/json"
	"html"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// site is where `make site` wrote the documentation. Hugo, which it needs, is no module of these tests.
func site(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("CFQ_SITE")
	if dir == "" {
		t.Skip("make page makes the site and looks at it")
	}
	return filepath.Clean(dir)
}

// pagesOf returns the addresses of the pages of a site within it.
func pagesOf(t *testing.T, dir string) []string {
	t.Helper()
	var pages []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, _ fs.DirEntry, err error) error {
		if path.Ext(name) == ".html" {
			pages = append(pages, name)
		}
		return err
	})
	if err != nil || len(pages) < 40 {
		t.Fatalf("%d pages in %s: %v", len(pages), dir, err)
	}
	return pages
}

// Every address within the site, also of the search index, is relative and leads to a file, and to an element of it if
// it names one. Every page of docs is there.
func TestPagesOfTheSiteLinkToEachOther(t *testing.T) {
	dir := site(t)
	ids := map[string][]string{} // of each page
	links := map[string][]string{}
	for _, name := range pagesOf(t, dir) {
		data := read(t, filepath.Join(dir, name))
		ids[name] = matches(`\sid="([^"]+)"`, data)
		links[name] = matches(`\s(?:href|src)="([^"]+)"`, data)
	}
	index := strings.TrimSpace(read(t, filepath.Join(dir, "search-index.js")))
	index = strings.TrimSuffix(strings.TrimPrefix(index, "window.searchIndex = "), ";")
	var entries []struct{ URL, Page, Heading, Text string }
	if err := json.Unmarshal([]byte(index), &entries); err != nil || len(entries) < 250 {
		t.Fatalf("%d entries to search in: %v", len(entries), err)
	}
	for _, e := range entries {
		links["search-index.js"] = append(links["search-index.js"], e.URL)
		if e.Page == "" || e.Heading == "" || strings.Contains(e.Text, "</") {
			t.Errorf("search index: %+v", e)
		}
	}
	for name, list := range links {
		for _, link := range list {
			u, err := url.Parse(html.UnescapeString(link))
			if err != nil || strings.HasPrefix(link, "/") {
				t.Errorf("%s: the address %q is not relative (%v)", name, link, err)
				continue
			}
			if u.Scheme != "" {
				continue
			}
			target := name
			if u.Path != "" {
				target = path.Join(path.Dir(name), u.Path)
			}
			if _, err := os.Stat(filepath.Join(dir, target)); err != nil {
				t.Errorf("%s links to %s: %v", name, link, err)
			}
			if u.Fragment != "" && !slices.Contains(ids[target], u.Fragment) {
				t.Errorf("%s links to %s, which %s does not have", name, link, target)
			}
		}
	}
	sources, err := filepath.Glob("../../../docs/*.md")
	tables, err2 := filepath.Glob("../../../docs/tables/*.md")
	if err != nil || err2 != nil || len(sources) == 0 || len(tables) == 0 {
		t.Fatal(err, err2, sources, tables)
	}
	for _, source := range append(sources, tables...) {
		name := strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(source, "../../../"), ".md")) + ".html"
		if _, ok := ids[name]; !ok {
			t.Errorf("%s has no page %s", source, name)
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func matches(pattern, text string) []string {
	var found []string
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		found = append(found, m[1])
	}
	return found
}

// seen is what a page of the site looks like.
type seen struct {
	Width, Inner float64
	Title        string
	H1, Main     int
	Current      int      // links of the navigation to the page itself
	Outside      []string // elements that reach beyond the window and are in no box that scrolls
	Faint        []string // texts with less contrast than 4.5
	Mute         []string // images without a description, boxes that scroll and cannot be reached by the keyboard
}

const examine = `(() => {
	const style = new Map();
	const of = e => {
		if (!style.has(e)) {
			const c = getComputedStyle(e);
			style.set(e, {scrolls: ['auto', 'scroll'].includes(c.overflowX), color: c.color, back: c.backgroundColor});
		}
		return style.get(e);
	};
	const shown = [...document.querySelectorAll('body *')].filter(e => e.checkVisibility());
	const scrolls = e => e && e !== document.body && (of(e).scrolls || scrolls(e.parentElement));
	const numbers = c => (c.match(/[\d.]+/g) || []).map(Number);
	const ground = e => { for (; e; e = e.parentElement) { const c = numbers(of(e).back);
		if (c.length === 3 || c[3] === 1) return c; } return [255, 255, 255]; };
	const light = c => { const [r, g, b] = c.slice(0, 3).map(
		v => (v /= 255, v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
		return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
	const contrast = e => { const [a, b] = [light(numbers(of(e).color)), light(ground(e))];
		return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05); };
	const name = e => e.tagName + '.' + e.className + ' ' + e.textContent.slice(0, 40);
	return {
		Width: document.documentElement.scrollWidth, Inner: window.innerWidth, Title: document.title,
		H1: shown.filter(e => e.tagName === 'H1').length, Main: shown.filter(e => e.tagName === 'MAIN').length,
		Current: document.querySelectorAll('#pages [aria-current=page]').length,
		Outside: shown.filter(e => e.getBoundingClientRect().right > window.innerWidth + 0.5 &&
			!scrolls(e.parentElement)).map(name),
		Faint: shown.filter(e => [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) &&
			contrast(e) < 4.5).map(name),
		Mute: shown.filter(e => e.tagName === 'IMG' ? !e.alt : e.tabIndex < 0 && e.closest('main') &&
			e.scrollWidth > e.clientWidth + 1 && of(e).scrolls).map(name),
	};
})()`

func TestPagesOfTheSiteInABrowser(t *testing.T) {
	dir := site(t)
	ctx := browser(t)
	// The site is served below a path, as by a host of many.
	server := httptest.NewServer(http.StripPrefix("/some/where/", http.FileServer(http.Dir(dir))))
	t.Cleanup(server.Close)
	base := server.URL + "/some/where/"
	c := complaints{site: base}
	if err := c.listen(ctx); err != nil {
		t.Fatal(err)
	}
	report := func(t *testing.T) {
		t.Helper()
		for _, complaint := range c.take() {
			t.Error(complaint)
		}
	}
	for _, name := range pagesOf(t, dir) {
		t.Run(name, func(t *testing.T) {
			must(ctx, t, chromedp.Navigate(base+name))
			for _, size := range [][2]int64{{390, 844}, {1280, 900}} {
				for _, colours := range []string{"light", "dark"} {
					visit(ctx, t, name, size, colours)
				}
			}
			report(t)
		})
	}
	files := (&url.URL{Scheme: "file", Path: filepath.ToSlash(dir) + "/"}).String()
	t.Run("search on a desk, in files", func(t *testing.T) {
		search(ctx, t, files, [2]int64{1280, 900}, "light")
		report(t)
	})
	t.Run("search on a telephone, of a server", func(t *testing.T) {
		search(ctx, t, base, [2]int64{390, 844}, "dark")
		report(t)
	})
	t.Run("menu", func(t *testing.T) {
		if err := show(ctx, base+"docs/task.html", [2]int64{390, 844}, "light"); err != nil {
			t.Fatal(err)
		}
		must(ctx, t, chromedp.WaitNotVisible("#pages"), chromedp.Click(".menu"), chromedp.WaitVisible("#pages"))
		keep(ctx, t, chromedp.CaptureScreenshot(), "menu", [2]int64{390, 844}, "light")
		must(ctx, t, chromedp.Click(`#pages a[href$="glossary.html"]`), chromedp.WaitVisible("#glossary"))
		report(t)
	})
}

func must(ctx context.Context, t *testing.T, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(ctx, steps...); err != nil {
		t.Fatal(err)
	}
}

// visit looks at the page that is open.
func visit(ctx context.Context, t *testing.T, name string, size [2]int64, colours string) {
	t.Helper()
	if err := window(ctx, size, colours); err != nil {
		t.Fatal(err)
	}
	s, err := chromedp.Run(ctx, chromedp.Evaluate[seen](examine))
	if err != nil {
		t.Fatal(err)
	}
	if s.Inner != float64(size[0]) || s.Width > s.Inner || len(s.Outside) > 0 {
		t.Errorf("%v %s: the page is %v wide; beyond the window are %q", size, colours, s.Width, s.Outside)
	}
	if len(s.Faint)+len(s.Mute) > 0 {
		t.Errorf("%v %s: hard to read: %q; not for everybody: %q", size, colours, s.Faint, s.Mute)
	}
	listed := !strings.HasPrefix(name, "docs/tables/") && name != "docs/readme.html"
	if s.H1 != 1 || s.Main != 1 || s.Title == "" || (s.Current == 1) != listed {
		t.Errorf("%+v", s)
	}
	if slices.Contains([]string{"index.html", "docs/command.html", "docs/task.html", "docs/tables/main.html"}, name) {
		name = strings.ReplaceAll(strings.TrimSuffix(name, ".html"), "/", "-")
		keep(ctx, t, chromedp.CaptureScreenshot(), name, size, colours)
	}
}

// search finds a term by the keyboard alone and goes to its page.
func search(ctx context.Context, t *testing.T, root string, size [2]int64, colours string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := show(ctx, root+"docs/tables/main.html", size, colours); err != nil {
		t.Fatal(err)
	}
	// The key leads to the field. That the letter stays out of it is up to the browser: here it comes apart from the key.
	must(ctx, t, chromedp.KeyEvent("/"))
	expect(ctx, t, `document.activeElement.id === 'query' && (document.activeElement.value = '') === ''`)
	must(ctx, t, chromedp.KeyEvent("no such/word"))
	expect(ctx, t, `document.querySelector('#status').textContent === 'Nothing found for “no such/word”.'`)
	must(ctx, t, chromedp.KeyEvent(kb.Escape), chromedp.WaitNotVisible("#found"))
	expect(ctx, t, `document.activeElement.id === 'query' && (document.activeElement.value = '') === ''`)
	must(ctx, t, chromedp.KeyEvent("calibration record"))
	expect(ctx, t, `document.querySelector('#results a b')?.textContent === 'Calibration record'`)
	keep(ctx, t, chromedp.CaptureScreenshot(), "search", size, colours)
	s, err := chromedp.Run(ctx, chromedp.Evaluate[seen](examine))
	if err != nil || s.Width > s.Inner || len(s.Outside)+len(s.Faint) > 0 {
		t.Errorf("results: %+v, %v", s, err)
	}
	must(ctx, t, chromedp.KeyEvent(kb.ArrowDown))
	expect(ctx, t, `document.activeElement === document.querySelector('#results a')`)
	must(ctx, t, chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible("#calibration-record"))
	if at, err := chromedp.Run(ctx, chromedp.Location()); at != root+"docs/verdicts.html#calibration-record" {
		t.Errorf("the first result led to %s (%v)", at, err)
	}
	keep(ctx, t, chromedp.CaptureScreenshot(), "found", size, colours)
}

// expect waits until an expression is true.
func expect(ctx context.Context, t *testing.T, expression string) {
	t.Helper()
	if _, err := chromedp.Run(ctx, chromedp.Poll[bool](expression)); err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
}
