// Package lists makes lists and sets of lists, where packages slices and maps have nothing.
//
// In: a list, and what to make of an element. Out: a list as long as it, or a set. The invariant: the order stays.
package lists

import "slices"

// Make returns what of makes of each number below n.
func Make[T any](n int, of func(i int) T) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = of(i)
	}
	return out
}

// Map returns what of makes of each element of list.
func Map[T, U any](list []T, of func(T) U) []U {
	return Make(len(list), func(i int) U { return of(list[i]) })
}

// Join returns what of makes of each element of list, one after the other.
func Join[T, U any](list []T, of func(T) []U) []U { return slices.Concat(Map(list, of)...) }

// Filter returns the elements of list that is holds for.
func Filter[T any](list []T, is func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(list), func(v T) bool { return !is(v) })
}

// Where returns the numbers below n that is holds for, ascending.
func Where(n int, is func(i int) bool) []int {
	out := make([]int, 0, n)
	for i := range n {
		if is(i) {
			out = append(out, i)
		}
	}
	return out
}

// RowsAt returns rows of x, each of width elements, one after the other.
func RowsAt[T any](x []T, width int, rows []int) []T {
	out := make([]T, 0, len(rows)*width)
	for _, i := range rows {
		out = append(out, x[i*width:(i+1)*width]...)
	}
	return out
}

// Mark adds keys to a set.
func Mark[K comparable](set map[K]bool, keys ...K) {
	for _, k := range keys {
		set[k] = true
	}
}
