package pace

import (
	"net/http"
	"time"

	"github.com/dunglas/httpsfv"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// Policy is an advertised quota: so many requests per window.
type Policy struct {
	Name   string
	Quota  int64
	Window time.Duration
}

// Limit is what a response says about one policy.
type Limit struct {
	Name string
	// Policy is nil if the response does not state the quota.
	Policy *Policy
	// Remaining is how many requests are left, by the cloud's count; nil if the response does not say.
	Remaining *int64
	// Reset is when more become available; 0 if the response does not say.
	Reset time.Duration
}

// ParseLimits returns what the headers RateLimit-Policy and RateLimit say (draft-ietf-httpapi-ratelimit-headers-10). It
// ignores what is malformed, and quotas of something other than requests.
func ParseLimits(h http.Header) []Limit {
	var limits []Limit
	for _, item := range items(h, cloudv1.HeaderRateLimitPolicy) {
		name, _ := item.Value.(string)
		quota, window := integer(item, "q"), integer(item, "w")
		if unit, set := item.Params.Get("qu"); set && unit != "requests" {
			continue
		}
		if name != "" && quota != nil && window != nil && *quota > 0 && *window > 0 {
			limits = append(limits, Limit{
				Name: name, Policy: &Policy{Name: name, Quota: *quota, Window: seconds(*window)},
			})
		}
	}
	for _, item := range items(h, cloudv1.HeaderRateLimit) {
		name, _ := item.Value.(string)
		remaining := integer(item, "r")
		if name == "" || remaining == nil || *remaining < 0 {
			continue
		}
		l := Limit{Name: name, Remaining: remaining}
		if reset := integer(item, "t"); reset != nil && *reset > 0 {
			l.Reset = seconds(*reset)
		}
		limits = append(limits, l)
	}
	return limits
}

// items returns the items of a header that is a list of structured fields (RFC 9651).
func items(h http.Header, name string) []httpsfv.Item {
	list, err := httpsfv.UnmarshalList(h.Values(name))
	if err != nil {
		return nil
	}
	var all []httpsfv.Item
	for _, member := range list {
		if item, ok := member.(httpsfv.Item); ok {
			all = append(all, item)
		}
	}
	return all
}

func integer(item httpsfv.Item, key string) *int64 {
	value, _ := item.Params.Get(key)
	if n, ok := value.(int64); ok {
		return &n
	}
	return nil
}

// seconds converts without overflow: a structured field has up to 15 digits.
func seconds(n int64) time.Duration {
	const day = 24 * 60 * 60
	return time.Duration(min(n, day)) * time.Second
}
