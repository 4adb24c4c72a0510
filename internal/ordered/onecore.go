package ordered

import "context"

type oneCore struct{}

// OneCore marks the context of one of several pieces of work that keep all cores busy: its calls are not divided among
// more than one.
func OneCore(ctx context.Context) context.Context { return context.WithValue(ctx, oneCore{}, true) }

// OnOneCore says whether OneCore made the context.
func OnOneCore(ctx context.Context) bool { return ctx.Value(oneCore{}) != nil }
