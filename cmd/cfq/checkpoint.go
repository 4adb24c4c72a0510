package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/pflag"
)

func addCheckpoint(fs *pflag.FlagSet, path *string) {
	fs.StringVar(path, "checkpoint", "",
		"keep the state of training in a `file` after each round, and go on from it if it exists; removed once "+
			"the model is written")
}

func noteCheckpoint(ctx context.Context, e *env, path string) {
	if ctx.Err() == nil || path == "" {
		return
	}
	if _, err := os.Stat(path); err == nil {
		e.msg.Note("the training is in %s; the same command goes on from there", path)
	}
}

func removeCheckpoint(path string) error {
	if path == "" {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}
