package tenants_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/test/builder"
)

const (
	// padding makes an object larger than what counts as an ordinary one.
	padding = 40 << 10
	// pace is the pause of an innocent tenant between Services.
	pace = 20 * time.Millisecond
	// completed is an annotation that admission adds to valid Services.
	completed = dlb + "listener-maxqps"
)

// named counts the objects with unique names.
var named atomic.Int64

func unique(prefix string) string { return fmt.Sprintf("%s-%d", prefix, named.Add(1)) }

// service returns a Service of type LoadBalancer as a user writes it, changed by options.
func service(name string, options ...builder.ServiceOption) *corev1.Service {
	svc := builder.Service(options...)
	svc.Namespace, svc.Name, svc.UID = "", name, ""
	for i := range svc.Spec.Ports {
		// The API server allocates it.
		svc.Spec.Ports[i].NodePort = 0
	}
	return svc
}

// mistake makes a Service invalid.
var mistake = builder.DLB("scheduler", "fastest")

// padded adds an annotation that no catalog knows.
func padded(size int) builder.ServiceOption {
	return builder.Annotation("example.com/notes", strings.Repeat("<note>", size/6))
}

// tally counts what happened to the Services of innocent tenants.
type tally struct {
	mu sync.Mutex
	// valid and invalid count the answered attempts.
	valid, invalid int
	// refused are valid Services that were refused, stored invalid ones that were stored.
	refused, stored []string
	// unanswered are attempts that the API server did not answer, which say nothing about the webhook.
	unanswered []string
	// incomplete counts valid Services that were stored without the defaults of admission.
	incomplete int
	slowest    time.Duration
}

// note records the answer to a write.
func (c *tally) note(what string, wrong bool, got answer, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slowest = max(c.slowest, took)
	switch {
	case !got.ok() && !got.refused():
		c.unanswered = append(c.unanswered, what+": "+got.String())
		return
	case wrong && got.ok():
		c.stored = append(c.stored, what)
	case !wrong && !got.ok():
		c.refused = append(c.refused, what+": "+got.String())
	}
	if wrong {
		c.invalid++
	} else {
		c.valid++
	}
}

// innocentPair creates a valid Service and an invalid one by dry run, and fails unless admission validates both.
func innocentPair(ctx context.Context, u *user) error {
	path := servicesOf(u.name) + "?dryRun=All"
	if got := u.post(ctx, path, service("probe")); !got.ok() || !strings.Contains(string(got.text), completed) {
		return fmt.Errorf("a valid Service: %s", got)
	}
	if got := u.post(ctx, path, service("probe", mistake)); !got.refused() {
		return fmt.Errorf("an invalid Service: %s", got)
	}
	return nil
}

// work creates, changes and deletes Services until the context ends. It holds the gate during each step.
func work(ctx context.Context, u *user, c *tally, gate *sync.RWMutex) {
	// Answers count, also those that arrive after the end.
	alive := context.WithoutCancel(ctx)
	collection := servicesOf(u.name)
	try := func(what string, wrong bool, send func() answer) answer {
		begin := time.Now()
		got := send()
		c.note(u.name+": "+what, wrong, got, time.Since(begin))
		return got
	}
	create := func(what string, wrong bool, options ...builder.ServiceOption) {
		name := unique(u.name)
		got := try("create "+what, wrong, func() answer { return u.post(alive, collection, service(name, options...)) })
		if got.ok() {
			if !wrong && !hasAnnotation(got.text, completed) {
				c.mu.Lock()
				c.incomplete++
				c.mu.Unlock()
			}
			if !wrong {
				u.remove(alive, collection+"/"+name)
			}
		}
	}
	standing := unique(u.name)
	u.post(alive, collection, service(standing, padded(padding)))
	steps := []func(){
		func() { create("small", false) },
		func() { create("small invalid", true, mistake) },
		func() { create("padded", false, padded(padding)) },
		func() { create("padded invalid", true, mistake, padded(padding)) },
		func() {
			try("change a padded one", false, func() answer { return u.patch(alive, collection+"/"+standing, valid) })
		},
		func() {
			try("invalidate a padded one", true, func() answer { return u.patch(alive, collection+"/"+standing, invalid) })
		},
	}
	for i := 0; ctx.Err() == nil; i++ {
		gate.RLock()
		steps[i%len(steps)]()
		gate.RUnlock()
		select {
		case <-ctx.Done():
		case <-time.After(pace):
		}
	}
	u.remove(alive, collection+"/"+standing)
}

func hasAnnotation(object []byte, key string) bool {
	var partial struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	return json.Unmarshal(object, &partial) == nil && partial.Metadata.Annotations[key] != ""
}
