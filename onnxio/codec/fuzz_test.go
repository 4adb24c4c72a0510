package codec_test

import (
	"bytes"
	"runtime/metrics"
	"testing"
	"time"

	"cfq/internal/must"
	"cfq/onnxio/codec"
	"cfq/onnxio/pass"
)

// FuzzRead: no bytes make Read panic, take long or take memory out of
// proportion, and what it accepts is written and read back the same.
func FuzzRead(f *testing.F) {
	f.Add(linear())
	f.Add(linear()[:40])
	f.Add(cat(linear(), msg(25, str(1, "F"), str(4, "p"), str(5, "q"), msg(7, str(1, "p"), str(2, "q"), str(4, "Relu")))))
	f.Add(weights(num(1, 3), num(2, tInt4), packed(int32Data, 0x21, 0x0f), str(8, "w")))
	f.Add(weights(num(1, 1<<40), num(1, 1<<40), num(2, tFloat), str(8, "w")))
	f.Add(weights(outside("w", 4, "location", "../w", "offset", "1", "length", "4")))
	f.Add(file(msg(1, str(2, "a"), str(4, "Constant"),
		msg(5, str(1, "value"), num(20, 4), msg(5, num(2, tFloat), float32s(floatData, 1))))))
	f.Add(file(msg(11, str(1, "x"), msg(2, msg(1, num(1, 1), msg(2, msg(1, num(1, -5)), msg(1, str(3, "denotation")))),
		str(6, "IMAGE")))))
	f.Add(file(bytes.Repeat([]byte{0x0a, 0}, 500), bytes.Repeat([]byte{0x2a, 0}, 500)))
	f.Fuzz(func(t *testing.T, data []byte) {
		start, before := time.Now(), allocated()
		m, err := codec.Read(data, "")
		if used, limit := allocated()-before, uint64(1<<20+2000*len(data)); used > limit {
			t.Errorf("%d bytes of input took %d bytes of memory", len(data), used)
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%d bytes of input took %v", len(data), took)
		}
		if err != nil {
			return
		}
		_ = m.Graph.Text()
		first := must.Get(codec.Marshal(m))(t)
		again, err := codec.Read(first, "")
		if err != nil {
			t.Fatalf("what was written is not read: %v", err)
		}
		if second, err := codec.Marshal(again); err != nil || !bytes.Equal(first, second) {
			t.Errorf("written again, other bytes (%v)", err)
		}
		_ = pass.Upgrade(again, nil)
	})
}

// allocated is the number of bytes that the process has allocated so far. Unlike
// runtime.ReadMemStats it does not stop all goroutines, which took half of the fuzzer's time.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
