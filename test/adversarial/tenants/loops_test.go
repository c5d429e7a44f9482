package tenants_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/test/adversarial"
	"quaymaster.dev/test/builder"
)

// during runs workers until the time is over. Each gets its number and how often it ran before.
func (s *stage) during(workers int, d time.Duration, run func(worker, i int)) {
	until := time.Now().Add(d)
	var running sync.WaitGroup
	for worker := range workers {
		running.Go(func() {
			for i := 0; time.Now().Before(until); i++ {
				run(worker, i)
			}
		})
	}
	running.Wait()
}

// mistaken returns a Service in which every part of a hostile one is, with a mistake.
func mistaken(hostile *corev1.Service) *corev1.Service {
	svc := hostile.DeepCopy()
	svc.Namespace, svc.Name, svc.UID = "", unique("hostile"), ""
	for i := range svc.Spec.Ports {
		svc.Spec.Ports[i].NodePort = 0
	}
	mistake(svc)
	return svc
}

// createHostile creates Services that are expensive to read.
func createHostile(s *stage) {
	for _, o := range adversarial.Objects() {
		svc := encode(mistaken(o.Service))
		s.cost(o.Name, func() int {
			s.expectRefusal("create with "+o.Name, s.attacker.post(s.Context(), servicesOf(s.namespace), svc))
			return 1
		})
	}
	for _, p := range servicePads() {
		if !*full && p.name != "the longest managed field" && p.name != "28,000 ports" {
			continue
		}
		svc := service("padded")
		if p.meta != nil {
			p.meta(&svc.ObjectMeta)
		}
		if p.service != nil {
			p.service(svc)
		}
		hostile := encode(mistaken(svc))
		s.cost("create with "+p.name, func() int {
			s.expectRefusal("create with "+p.name, s.attacker.post(s.Context(), servicesOf(s.namespace), hostile))
			return 1
		})
	}
}

// loop lets the attacker create large Services by dry run, in concurrent loops. Half of them have mistakes.
func loop(s *stage, loops int) {
	// The API server accepts 3 MiB. In a review, < is six times as long.
	const large = 2_900_000
	// In Protobuf, they cost the API server least.
	var bodies [][]byte
	add := func(svc *corev1.Service) {
		for _, svc := range []*corev1.Service{svc, mistaken(svc)} {
			body, err := inProtobuf(svc)
			if err != nil {
				s.Fatal(err)
			}
			bodies = append(bodies, body)
		}
	}
	for _, options := range [][]builder.ServiceOption{
		{builder.Annotation("example.com/notes", strings.Repeat("n", large))},
		{builder.Annotation("example.com/notes", strings.Repeat("n", large/2)+strings.Repeat("<", large/20))},
		{builder.Annotation("example.com/notes", strings.Repeat("<", large))},
		{padded(1 << 20)},
		{padded(200 << 10)},
		{builder.DLB("tags", strings.Repeat("a=b,", 60<<10))},
		{padded(20 << 10)},
	} {
		add(service("large", options...))
	}
	// The webhook takes longer for this one than for others of its size.
	forms := adversarial.Objects()[0].Service.DeepCopy()
	forms.Namespace, forms.Spec.Ports[0].NodePort = "", 0
	add(forms)
	path := servicesOf(s.namespace) + "?dryRun=All"
	for i, body := range bodies {
		if loops > 6 || i >= size(6, len(bodies)) {
			break // with fewer loops, each has been measured
		}
		s.cost(fmt.Sprintf("a Service of %d KiB", len(body)>>10), func() int {
			s.checkLarge(i, s.attacker.send(s.Context(), http.MethodPost, path, protobuf, body))
			return 1
		})
	}
	s.during(loops, duration(2500*time.Millisecond, 30*time.Second), func(worker, i int) {
		// Most loops send the same body all the time.
		n := worker % len(bodies)
		if worker%6 == 5 {
			n = i % len(bodies)
		}
		s.checkLarge(n, s.attacker.send(context.WithoutCancel(s.Context()), http.MethodPost, path, protobuf, bodies[n]))
	})
}

// checkLarge expects every second large Service to be refused. The others may be: they are the attacker's.
func (s *stage) checkLarge(i int, got answer) {
	if i%2 == 1 && got.code != http.StatusTooManyRequests {
		s.expectRefusal("create a large Service by dry run", got)
	}
}
