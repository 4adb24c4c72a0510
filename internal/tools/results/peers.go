package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"cfq/ptq"
)

// peer is a tool whose files are measured beside those of this project.
type peer struct {
	title string
	form  string // of bench/other_tools.py
}

func peers() []peer {
	return []peer{
		{"NNCF INT8", "nncf-int8"},
		{"ORT static INT8", "ort-qdq-per-channel"},
		{"ORT MatMulNBits 4", "ort-nbits-4"},
	}
}

// peerRows is how many training rows the peers are calibrated on: as many as this project takes.
const peerRows = 4096

// others writes and measures the files of other tools for the row's networks. tools says which these are.
func (r *defaultRow) others(ctx context.Context, o settings) (rows []*row, tools string, err error) {
	in, err := read(ctx, o, r.d)
	if err != nil {
		return nil, "", err
	}
	folder, err := os.MkdirTemp("", "cfq-peers-")
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	for _, p := range peers() {
		rows = append(rows, &row{label: p.title})
	}
	for k := range r.nets.n {
		path, model, err := r.nets.of(ctx, in, k)
		if err != nil {
			return nil, "", err
		}
		if tools, err = write(ctx, o.python, in, path, folder); err != nil {
			return nil, "", err
		}
		full, err := ptq.OpenFor(model, in.task, o.workers)
		if err != nil {
			return nil, "", err
		}
		original, err := solve(ctx, o, full, in)
		for i := 0; err == nil && i < len(rows); i++ {
			m := measured{Result: &ptq.Result{}}
			if m.Model, err = os.ReadFile(filepath.Join(folder, peers()[i].form+".onnx")); err == nil {
				m.eval, err = compared(ctx, m.Model, in, original, full)
			}
			m.Bytes, rows[i].values = len(m.Model), append(rows[i].values, m)
			log.Printf("%s: %s", path, rows[i].label)
		}
		if err = errors.Join(err, full.Close()); err != nil {
			return nil, "", fmt.Errorf("%s: %w", path, err)
		}
	}
	return rows, tools, nil
}

// write has the peers write their files for a model into a folder, calibrated on rows evenly spread over the training
// rows, and returns what the tools call themselves.
func write(ctx context.Context, python string, in data, model, folder string) (string, error) {
	var table strings.Builder
	n, dim := min(in.train.N, peerRows), in.train.Dim
	for k := range n {
		row := in.train.X[k*in.train.N/n*dim:][:dim]
		fmt.Fprintln(&table, strings.ReplaceAll(strings.Trim(fmt.Sprint(row), "[]"), " ", ","))
	}
	file := filepath.Join(folder, "rows.csv")
	if err := os.WriteFile(file, []byte(table.String()), 0o600); err != nil {
		return "", err
	}
	script := filepath.Join("bench", "other_tools.py")
	args := []string{script, "--write", model, file, folder}
	for _, p := range peers() {
		args = append(args, p.form)
	}
	c := exec.CommandContext(ctx, python, args...)
	c.Stderr = os.Stderr
	said, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", python, script, err)
	}
	return strings.TrimSpace(string(said)), nil
}
