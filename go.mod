module cfq

go 1.26.0

require (
	github.com/agext/levenshtein v1.2.3 // "did you mean"; has no dependencies
	github.com/goccy/go-yaml v1.19.2 // task and gate files: line and column of every key; yaml.v3 is unmaintained
	github.com/google/go-cmp v0.7.0 // tests: readable differences
	github.com/parquet-go/parquet-go v0.32.0 // Parquet data and records
	github.com/pierrec/lz4/v4 v4.1.29 // blocks for parquet-go, replaced by internal/lz4
	github.com/schollz/progressbar/v3 v3.19.1 // progress on terminals
	github.com/spf13/pflag v1.0.10 // long and short flags; cobra and kong are frameworks
	github.com/yalue/onnxruntime_go v1.27.0 // ONNX Runtime, loaded at run time, with cancellation
	golang.org/x/image v0.47.0 // fonts of pictures of people (internal/chart)
	golang.org/x/sync v0.24.0 // groups of goroutines
	golang.org/x/sys v0.49.0 // cpu: the features by which ONNX Runtime chooses kernels; windows: file locks
	golang.org/x/term v0.47.0 // whether stderr is a terminal
	golang.org/x/tools v0.52.0 // tests: txtar, golden files with several parts
	gonum.org/v1/gonum v0.17.0 // linear algebra, statistics, linear programming
	gonum.org/v1/plot v0.17.0 // plots as SVG; go-echarts needs a browser
	google.golang.org/protobuf v1.36.12 // ONNX files; faster libraries do not matter, files are read once
	pgregory.net/rapid v1.3.0 // tests: property tests with shrinking, which testing/quick lacks
)

require (
	codeberg.org/go-fonts/liberation v0.6.0 // indirect
	codeberg.org/go-latex/latex v0.2.0 // indirect
	codeberg.org/go-pdf/fpdf v0.11.1 // indirect
	git.sr.ht/~sbinet/gg v0.7.0 // indirect
	github.com/ajstarks/svgo v0.0.0-20211024235047-1546f124cd8b // indirect
	github.com/andybalholm/brotli v1.2.3 // indirect
	github.com/golang/freetype v0.0.0-20170609003504-e2365dfdc4a0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/klauspost/compress v1.19.2 // indirect
	github.com/mitchellh/colorstring v0.0.0-20190213212951-d06e56a500db // indirect
	github.com/parquet-go/bitpack v1.0.0 // indirect
	github.com/parquet-go/jsonlite v1.0.0 // indirect
	github.com/rivo/uniseg v0.4.7 // indirect
	github.com/twpayne/go-geom v1.6.1 // indirect
	golang.org/x/text v0.43.0 // indirect
)

// The module has 34 MB of test data, a fifth of all downloads.
replace github.com/pierrec/lz4/v4 => ./internal/lz4
