package command

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"cfq/internal/must"
)

// browser starts Chromium, which CFQ_CHROMIUM names or the path has. Only `make page` does: the browser takes as long
// as all other tests of the command.
func browser(t *testing.T) context.Context {
	t.Helper()
	if os.Getenv("CFQ_REQUIRE_CHROMIUM") != "1" {
		t.Skip("make page looks at the pages in Chromium")
	}
	program := os.Getenv("CFQ_CHROMIUM")
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if program == "" {
			program, _ = exec.LookPath(name)
		}
	}
	if program == "" {
		t.Fatal("there is no Chromium: install it or name it by CFQ_CHROMIUM")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program),
		chromedp.UserDataDir(t.TempDir()), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true), chromedp.WSURLReadTimeout(time.Minute))
	ctx, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, closeTab := chromedp.NewContext(ctx)
	t.Cleanup(closeTab)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

type complaints struct {
	sync.Mutex
	list []string
}

func (c *complaints) add(format string, a ...any) {
	c.Lock()
	defer c.Unlock()
	c.list = append(c.list, fmt.Sprintf(format, a...))
}

func (c *complaints) take() []string {
	c.Lock()
	defer c.Unlock()
	list := c.list
	c.list = nil
	return list
}

func (c *complaints) listen(ctx context.Context) error {
	err := chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventConsoleAPICalled:
			c.add("the console says something (%s)", e.Type)
		case *runtime.EventExceptionThrown:
			c.add("exception: %v", e.ExceptionDetails)
		case *log.EventEntryAdded:
			c.add("%s: %s", e.Entry.Level, e.Entry.Text)
		case *network.EventRequestWillBeSent:
			u := e.Request.URL
			if !strings.HasPrefix(u, "file://") && !strings.HasPrefix(u, "data:") {
				c.add("a request to %s", u)
			}
		}
	})
	_, err1 := chromedp.Call(ctx, network.Enable, network.EnableParams{})
	_, err2 := chromedp.Call(ctx, log.Enable, cdp.Empty{})
	_, err3 := chromedp.Call(ctx, runtime.Enable, cdp.Empty{})
	return errors.Join(err, err1, err2, err3)
}

func show(ctx context.Context, address string, size [2]int64, colours string) error {
	_, err1 := chromedp.Call(ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: size[0], Height: size[1], DeviceScaleFactor: 1, Mobile: size[0] < 500,
	})
	_, err2 := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: colours}},
	})
	return errors.Join(err1, err2, chromedp.Do(ctx, chromedp.Navigate(address)))
}

func keep(
	ctx context.Context, t *testing.T, picture chromedp.Action[[]byte], name string, size [2]int64, colours string,
) {
	t.Helper()
	out := os.Getenv("CFQ_SCREENSHOTS")
	if out == "" {
		return
	}
	shot, err := chromedp.Run(ctx, picture)
	if err == nil {
		err = os.WriteFile(filepath.Join(out, fmt.Sprintf("%s-%d-%s.png", name, size[0], colours)), shot, 0o600)
	}
	must.Do(t, err)
}

type layout struct {
	Width, Inner       float64
	H1, Tables, Charts int
	Smallest           float64  // height of the smallest letters of a picture, in pixels
	Outside            []string // elements that reach beyond the window
	Cut                []string // tables and cells of which a part is not to be seen without scrolling
	Checks             []string // rows of the table of checks that do not show what decides
	Verdict, Title     string
}

const measure = `(() => {
	const boxes = s => [...document.querySelectorAll(s)];
	document.querySelectorAll('details').forEach(d => d.open = true);
	const inside = (e, box) => { const a = e.getBoundingClientRect(), b = box.getBoundingClientRect();
		return a.width > 0 && a.height > 0 && a.left >= b.left - 1 && a.right <= b.right + 1; };
	return {
		Width: document.documentElement.scrollWidth, Inner: window.innerWidth,
		H1: boxes('h1').length, Tables: boxes('.scroll table').length, Charts: boxes('[role=img] > svg').length,
		Smallest: Math.min(1000, ...boxes('svg text').map(e => parseFloat(getComputedStyle(e).fontSize) *
			e.ownerSVGElement.getBoundingClientRect().width / e.ownerSVGElement.viewBox.baseVal.width)),
		Cut: [...boxes('.scroll').filter(e => e.scrollWidth > e.clientWidth).map(e => e.textContent.slice(0, 80)),
			...boxes('tbody th, tbody td').filter(e => e.textContent && !inside(e, e.closest('.scroll')))
				.map(e => e.textContent)],
		Checks: boxes('#s-checks tbody tr').filter(r => ['value', 'bounds', 'limit'].some(
			k => { const e = r.querySelector('[data-label="' + k + '"]'); return !e || !inside(e, r.closest('.scroll')); }))
			.map(r => r.textContent),
		Outside: boxes('body *').filter(e => !e.closest('svg') &&
			e.getBoundingClientRect().right > window.innerWidth + 0.5).map(e => e.tagName + '.' + e.className),
		Verdict: (document.querySelector('.verdict') || {textContent: ''}).textContent, Title: document.title,
	};
})()`

// The pages are looked at in a browser: at the width of a telephone and of a desk, in the light and in the dark.
// CFQ_SCREENSHOTS names a directory for pictures of them.
func TestPagesInABrowser(t *testing.T) {
	ctx := browser(t)
	dir := reports(t).dir
	var c complaints
	must.Do(t, c.listen(ctx))
	for _, name := range []string{"eval", "gate", "compare"} {
		path := filepath.Join(dir, name+".html")
		for _, size := range [][2]int64{{390, 844}, {1280, 900}} {
			for _, colours := range []string{"light", "dark"} {
				t.Run(fmt.Sprintf("%s-%d-%s", name, size[0], colours), func(t *testing.T) {
					look(ctx, t, path, size, colours, name)
					for _, complaint := range c.take() {
						t.Error(complaint)
					}
				})
			}
		}
	}
}

func look(ctx context.Context, t *testing.T, path string, size [2]int64, colours, name string) {
	t.Helper()
	address := (&url.URL{Scheme: "file", Path: filepath.ToSlash(path)}).String()
	must.Do(t, show(ctx, address, size, colours))
	l := must.Get(chromedp.Run(ctx, chromedp.Evaluate[layout](measure)))(t)
	if len(l.Cut)+len(l.Checks) > 0 {
		t.Errorf("not to be seen without scrolling: %q; checks without value, bounds or limit: %q", l.Cut, l.Checks)
	}
	if l.Width > l.Inner || len(l.Outside) > 0 {
		t.Errorf("the page is %v wide in a window of %v; beyond it are %v", l.Width, l.Inner, l.Outside)
	}
	if l.Inner != float64(size[0]) || l.H1 != 1 || l.Tables == 0 || l.Title == "" {
		t.Errorf("%+v", l)
	}
	if l.Smallest < 10 {
		t.Errorf("letters of %.1f pixels in a picture", l.Smallest)
	}
	if name == "gate" && (l.Charts == 0 || l.Verdict != "FAIL") {
		t.Errorf("%d pictures and the verdict %q", l.Charts, l.Verdict)
	}
	keep(ctx, t, chromedp.FullScreenshot(100), name, size, colours)
}
