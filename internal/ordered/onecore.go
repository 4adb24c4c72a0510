package ordered

import "context"

type oneCore struct{}

// OneCore marks what runs beside as much as there are cores: calls with the context are not divided among more of them.
func OneCore(ctx context.Context) context.Context { return context.WithValue(ctx, oneCore{}, true) }

// OnOneCore says whether OneCore made the context.
func OnOneCore(ctx context.Context) bool { return ctx.Value(oneCore{}) != nil }
