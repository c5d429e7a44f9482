package store_test

import (
	"path/filepath"
	"testing"

	"k8s.io/utils/clock"

	"quaymaster.dev/internal/mycloud/server/store"
	"quaymaster.dev/internal/mycloud/server/store/conformance"
)

func TestConformance(t *testing.T) {
	conformance.Test(t, func(t *testing.T, c clock.PassiveClock) store.Store {
		t.Helper()
		s, err := store.Open(filepath.Join(t.TempDir(), "state.db"), c)
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}
