package ordered

import (
	"context"
	"testing"
)

func TestOneCore(t *testing.T) {
	ctx, cancel := context.WithCancel(OneCore(t.Context()))
	defer cancel()
	if !OnOneCore(ctx) || OnOneCore(t.Context()) {
		t.Errorf("marked %v, not marked %v", OnOneCore(ctx), OnOneCore(t.Context()))
	}
}
