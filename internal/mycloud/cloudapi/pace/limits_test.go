package pace_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"quaymaster.dev/internal/mycloud/cloudapi/pace"
)

func TestParseLimits(t *testing.T) {
	policy := func(name string, quota int64, window time.Duration) pace.Limit {
		return pace.Limit{Name: name, Policy: &pace.Policy{Name: name, Quota: quota, Window: window}}
	}
	for name, test := range map[string]struct {
		policy, limit []string
		want          []pace.Limit
	}{
		"none": {},
		"two classes in one line": {
			policy: []string{`"read";q=600;w=60, "write";q=60;w=60`}, limit: []string{`"read";r=571;t=14`},
			want: []pace.Limit{
				policy("read", 600, time.Minute), policy("write", 60, time.Minute),
				{Name: "read", Remaining: new(int64(571)), Reset: 14 * time.Second},
			},
		},
		"two lines": {
			policy: []string{`"read";q=600;w=60`, `"write";q=60;w=1`},
			want:   []pace.Limit{policy("read", 600, time.Minute), policy("write", 60, time.Second)},
		},
		"other parameters":  {policy: []string{`"read";q=600;w=60;pk=:YQ==:;qu="requests"`}, want: []pace.Limit{policy("read", 600, time.Minute)}},
		"quota of bytes":    {policy: []string{`"read";q=600;w=60;qu="content-bytes"`}},
		"no window":         {policy: []string{`"read";q=600`}},
		"no quota":          {policy: []string{`"read";q=0;w=60`}},
		"a token as a name": {policy: []string{`read;q=600;w=60`}},
		"not a list":        {policy: []string{`600, 600;window=60; "`}, limit: []string{"<html>"}},
		"a huge window":     {policy: []string{`"read";q=1;w=999999999999999`}, want: []pace.Limit{policy("read", 1, 24*time.Hour)}},
		"negative":          {limit: []string{`"read";r=-1;t=-5`}},
		"no reset":          {limit: []string{`"read";r=0`}, want: []pace.Limit{{Name: "read", Remaining: new(int64(0))}}},
	} {
		t.Run(name, func(t *testing.T) {
			h := http.Header{"Ratelimit-Policy": test.policy, "Ratelimit": test.limit}
			if diff := cmp.Diff(test.want, pace.ParseLimits(h)); diff != "" {
				t.Errorf("limits (-want +got):\n%s", diff)
			}
		})
	}
}
