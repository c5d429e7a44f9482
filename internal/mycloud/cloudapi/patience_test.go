package cloudapi

import (
	"context"
	"net/http"
	"testing"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

func TestPatience(t *testing.T) {
	t.Parallel()
	const hold = 55 * time.Second
	for name, test := range map[string]struct {
		request  request
		deadline time.Duration
		want     time.Duration
	}{
		"a read":                        {request{method: http.MethodGet}, time.Minute, attemptWait},
		"a read of a caller in a hurry": {request{method: http.MethodGet}, 3 * time.Second, time.Second},
		// A server that holds its response is not silent, however many there are.
		"a read that is held": {request{method: http.MethodGet, hold: hold}, time.Minute + hold, attemptWait + hold},
		"a write":             {request{method: http.MethodPut}, time.Minute, silentWait},
		"a write with a key": {
			request{method: http.MethodPost, header: map[string]string{cloudv1.HeaderIdempotencyKey: "k"}}, time.Minute, attemptWait,
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), test.deadline)
		if got := patience(ctx, &test.request, 3); got > test.want || got < test.want-100*time.Millisecond {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
		cancel()
	}
}
