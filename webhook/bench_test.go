package webhook_test

import "testing"

// BenchmarkCall measures one request from the body to the response, without HTTP.
func BenchmarkCall(b *testing.B) {
	for _, c := range calls(b) {
		b.Run(c.name, func(b *testing.B) {
			serve := c.server(b)
			b.SetBytes(int64(len(c.body)))
			b.ReportAllocs()
			for b.Loop() {
				serve()
			}
		})
	}
}
