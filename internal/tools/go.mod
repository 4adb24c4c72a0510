module cfq/internal/tools

go 1.26.0

require (
	cfq v0.0.0 // the module under test
	github.com/chromedp/cdproto v0.159.0 // protocol types of chromedp
	github.com/chromedp/chromedp v0.23.0 // HTML reports in an installed Chromium; rod and playwright-go fetch their own
	github.com/goccy/go-yaml v1.19.2 // reads pipeline files
	github.com/google/go-cmp v0.7.0 // indirect; readable differences
	github.com/google/renameio/v2 v2.0.2 // writes whole files or none; os.Rename forgets permissions and syncing
	github.com/invopop/jsonschema v0.14.0 // JSON Schemas from Go types and their comments
	github.com/parquet-go/parquet-go v0.32.0 // reads and writes Parquet files in tests
	github.com/rogpeppe/go-internal v1.16.0 // testscript: tests the command by scripts, on Windows too
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3 // checks files against the published schemas
	golang.org/x/tools v0.52.0 // txtar
	gonum.org/v1/gonum v0.17.0 // numbers in tests and generators
)

require (
	codeberg.org/go-fonts/liberation v0.6.0 // indirect
	codeberg.org/go-latex/latex v0.2.0 // indirect
	codeberg.org/go-pdf/fpdf v0.11.1 // indirect
	git.sr.ht/~sbinet/gg v0.7.0 // indirect
	github.com/agext/levenshtein v1.2.3 // indirect
	github.com/ajstarks/svgo v0.0.0-20211024235047-1546f124cd8b // indirect
	github.com/andybalholm/brotli v1.2.3 // indirect
	github.com/bahlo/generic-list-go v0.2.0 // indirect
	github.com/buger/jsonparser v1.1.2 // indirect
	github.com/go-json-experiment/json v0.0.0-20260213210345-44df1a37e875 // indirect
	github.com/golang/freetype v0.0.0-20170609003504-e2365dfdc4a0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/klauspost/compress v1.19.2 // indirect
	github.com/mitchellh/colorstring v0.0.0-20190213212951-d06e56a500db // indirect
	github.com/parquet-go/bitpack v1.0.0 // indirect
	github.com/parquet-go/jsonlite v1.0.0 // indirect
	github.com/pb33f/ordered-map/v2 v2.3.1 // indirect
	github.com/pierrec/lz4/v4 v4.1.29 // indirect
	github.com/rivo/uniseg v0.4.7 // indirect
	github.com/schollz/progressbar/v3 v3.19.1 // indirect
	github.com/spf13/pflag v1.0.10 // indirect
	github.com/twpayne/go-geom v1.6.1 // indirect
	github.com/yalue/onnxruntime_go v1.27.0 // indirect
	go.yaml.in/yaml/v4 v4.0.0-rc.2 // indirect
	golang.org/x/image v0.47.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/term v0.47.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	gonum.org/v1/plot v0.17.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

replace cfq => ../..

replace github.com/pierrec/lz4/v4 => ../lz4
