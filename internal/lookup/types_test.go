package lookup_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	cloudprovider "k8s.io/cloud-provider"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/lookup"
	"quaymaster.dev/internal/mycloud/cloudapi"
)

// catalog is a cloud with the volume types in list; it hangs while list is nil.
type catalog struct {
	lookup.Cloud
	list  atomic.Pointer[[]cloudv1.VolumeType]
	calls atomic.Int32
}

func (c *catalog) VolumeTypes(
	ctx context.Context, _ cloudapi.ListOptions,
) (*cloudv1.List[cloudv1.VolumeType], error) {
	c.calls.Add(1)
	list := c.list.Load()
	if list == nil {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &cloudv1.List[cloudv1.VolumeType]{Items: *list}, nil
}

func (c *catalog) Volume(ctx context.Context, _ string) (*cloudv1.Volume, error) {
	c.calls.Add(1)
	<-ctx.Done()
	return nil, ctx.Err()
}

func (c *catalog) has(types ...cloudv1.VolumeType) { c.list.Store(&types) }

func ssd(maxGiB int) cloudv1.VolumeType {
	return cloudv1.VolumeType{Object: cloudv1.Object{Name: "ssd"}, MaxSizeGiB: maxGiB}
}

// Volume types are read in the background only: whatever requests ask for and however the cloud behaves, they cost it
// no call, and an old list is used for a while.
func TestVolumeTypesAreReadInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &catalog{}
		l := lookup.New(lookup.Options{Cloud: c})
		expect := func(when string, calls int32, ssd int, known bool) {
			t.Helper()
			synctest.Wait()
			if got := c.calls.Swap(0); got != calls {
				t.Errorf("%s: %d calls, want %d", when, got, calls)
			}
			began := time.Now()
			for i := range 100 {
				got, err := l.VolumeType("ssd")
				if known && (err != nil || got.MaxSizeGiB != ssd) || !known && (err == nil || errors.Is(err, lookup.ErrUnknownType)) {
					t.Fatalf("%s: %+v, %v; want %d GiB", when, got, err, ssd)
				}
				_, err = l.VolumeType(fmt.Sprintf("floppy-%d", i))
				if err == nil || errors.Is(err, lookup.ErrUnknownType) != known {
					t.Fatalf("%s: an unknown type: %v", when, err)
				}
			}
			if waited := time.Since(began); waited > 0 {
				t.Errorf("%s: requests waited %s", when, waited)
			}
			if got := c.calls.Load(); got != 0 {
				t.Errorf("%s: requests cost %d calls", when, got)
			}
		}
		expect("before the start", 0, 0, false)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go l.Run(ctx)
		expect("while the first read hangs", 1, 0, false)
		c.has(ssd(1024))
		time.Sleep(10 * time.Second)
		expect("after the first answer", 1, 1024, true)
		c.has(ssd(2048))
		time.Sleep(time.Minute)
		expect("a minute later", 1, 2048, true)
		c.has()
		time.Sleep(time.Minute)
		expect("after a malformed answer", 1, 2048, true)
		c.list.Store(nil)
		time.Sleep(7 * time.Minute)
		expect("while the cloud hangs", 60, 2048, true)
		time.Sleep(3 * time.Minute)
		expect("after ten minutes", 26, 2048, false)
		c.has(ssd(4096))
		time.Sleep(10 * time.Second)
		expect("when the cloud is back", 1, 4096, true)
	})
}

// Reads in the background and lookups are reported alike.
func TestResultsOfVolumeTypes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, told := &catalog{}, map[string]int{}
		var mu sync.Mutex
		l := lookup.New(lookup.Options{Cloud: c, OnLookup: func(kind lookup.Kind, result lookup.Result) {
			mu.Lock()
			defer mu.Unlock()
			told[string(kind)+" "+string(result)]++
		}})
		ask := func() {
			synctest.Wait()
			for _, name := range []string{"ssd", "gold"} {
				// The answers are checked elsewhere.
				_, _ = l.VolumeType(name)
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go l.Run(ctx)
		ask()
		time.Sleep(3 * time.Second)
		c.has(ssd(1024))
		time.Sleep(5 * time.Second)
		ask()
		mu.Lock()
		defer mu.Unlock()
		want := map[string]int{"volume-types unavailable": 3, "volume-types miss": 1, "volume-types hit": 2}
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("results (-want +got):\n%s", diff)
		}
	})
}

// A cloud that hangs costs one read at a time, however many volumes are asked for and for how long.
func TestHangingCloudIsProbedByOneRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &catalog{}
		l := lookup.New(lookup.Options{Cloud: c})
		ask := func(round int) {
			together(50, func(i int) error {
				_, err := l.Volume(t.Context(), fmt.Sprintf("vol-%d-%d", round, i))
				if err == nil {
					t.Error("a volume was found")
				}
				return err
			})
		}
		ask(0)
		if got := c.calls.Swap(0); got != 16 {
			t.Errorf("%d calls until the first timeout, want 16", got)
		}
		for round := 1; round <= 5; round++ {
			time.Sleep(2 * time.Second)
			ask(round)
			if got := c.calls.Swap(0); got != 1 {
				t.Errorf("round %d: %d calls, want 1", round, got)
			}
		}
	})
}

// Callers cannot cost the cloud more than the budget, even if it answers at once. Those who cannot be served do not wait,
// and are served later.
func TestReadsHaveABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &instant{}
		l := lookup.New(lookup.Options{Cloud: c})
		for second := range int32(10) {
			began := time.Now()
			errs := together(500, func(i int) error {
				_, err := l.Volume(t.Context(), fmt.Sprintf("vol-%d", i))
				return err
			})
			if waited := time.Since(began); waited > 0 {
				t.Errorf("second %d: lookups waited %s", second, waited)
			}
			served := 0
			for _, err := range errs {
				if err == nil {
					served++
				} else if errors.Is(err, cloudprovider.DiskNotFound) {
					t.Fatalf("a lookup without a read: %v", err)
				}
			}
			if got, want := c.calls.Load(), 100+20*second; got != want || served != int(want) {
				t.Errorf("second %d: %d calls in total, %d volumes are known, want %d", second, got, served, want)
			}
			time.Sleep(time.Second)
		}
	})
}

// instant is a cloud that has every volume.
type instant struct {
	lookup.Cloud
	calls atomic.Int32
}

func (c *instant) Volume(_ context.Context, id string) (*cloudv1.Volume, error) {
	c.calls.Add(1)
	return &cloudv1.Volume{Object: cloudv1.Object{ID: id}}, nil
}
