// Package tasks holds the task files of public data sets, for programs that bring them along.
package tasks

import "embed"

// Files are the task files, NAME.yaml.
//
//go:embed *.yaml
var Files embed.FS
