package chart

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/test/bench/admission/machine"
	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/harness/env"
	"quaymaster.dev/test/harness/process"
)

// checkCostOfConditions checks that API servers spend little on the match conditions for the largest Services: CPU time
// compared with that for Services of another type, with which the conditions begin. It deletes the validating
// configuration, which is called for every update of a load balancer.
func checkCostOfConditions(t *testing.T, e *env.Env, asked *counter) {
	var record []string
	for i := range 250 {
		record = append(record, strconv.FormatInt(int64(i), 36)+"=b")
	}
	const defaulted = "quaymaster.dev/defaulted"
	shapes := map[string]func(svc *corev1.Service){
		"annotations": func(svc *corev1.Service) {
			svc.Annotations = map[string]string{defaulted: strings.Join(record, ",")}
			for i := range 10_000 {
				svc.Annotations[strconv.FormatInt(int64(i), 36)] = ""
			}
		},
		"record": func(svc *corev1.Service) {
			svc.Annotations = map[string]string{defaulted: strings.Repeat("a=b,", 60_000)}
		},
		"ports": func(svc *corev1.Service) {
			svc.Spec.Ports, svc.Spec.AllocateLoadBalancerNodePorts = nil, new(bool)
			for i := range 2000 {
				svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: fmt.Sprintf("p%d", i), Port: int32(i + 1)})
			}
		},
	}
	stored := map[string]*corev1.Service{}
	for name, change := range shapes {
		for _, kind := range []corev1.ServiceType{corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeClusterIP} {
			svc := builder.Service()
			svc.Name, svc.UID = strings.ToLower(name+"-"+string(kind)), ""
			svc.Spec.Ports[0].NodePort = 0
			change(svc)
			if svc.Spec.Type = kind; kind == corev1.ServiceTypeClusterIP {
				svc.Spec.AllocateLoadBalancerNodePorts, svc.Spec.LoadBalancerClass = nil, nil
			}
			if err := e.Client.Create(t.Context(), svc); err != nil {
				t.Fatal(err)
			}
			stored[svc.Name] = svc
		}
	}
	api := e.Processes()[slices.IndexFunc(e.Processes(), func(p *process.Process) bool { return p.Name() == "kube-apiserver" })]
	cost := func(write func(svc *corev1.Service) error, svc *corev1.Service) time.Duration {
		t.Helper()
		const runs = 3
		before, err := machine.CPU(api.PID())
		for range runs {
			if err == nil {
				err = write(svc.DeepCopy())
			}
		}
		after, last := machine.CPU(api.PID())
		if err != nil || last != nil {
			t.Fatal(err, last)
		}
		return (after - before) / runs
	}
	compare := func(what string, write func(svc *corev1.Service) error) {
		t.Helper()
		settle(t, e.Client)
		asked.take()
		for name := range shapes {
			var with, without time.Duration
			for range 3 {
				with, without = cost(write, stored[name+"-loadbalancer"]), cost(write, stored[name+"-clusterip"])
				if with <= without*3/2+20*time.Millisecond {
					break
				}
			}
			t.Logf("%s, %s: %v, without conditions %v", what, name, with, without)
			if with > without*3/2+20*time.Millisecond {
				t.Errorf("%s, %s: %v, without conditions %v", what, name, with, without)
			}
		}
		if calls := asked.take(); len(calls) > 0 {
			t.Errorf("%s: calls %v, so that the conditions were true", what, calls)
		}
	}
	compare("status", func(svc *corev1.Service) error {
		svc.Status.Conditions = []metav1.Condition{{Type: "a.example/b", Status: "True", Reason: "A", LastTransitionTime: metav1.Now()}}
		return e.Client.Status().Update(t.Context(), svc, client.DryRunAll)
	})
	label := func(svc *corev1.Service) error {
		svc.Labels = map[string]string{"tier": "front"}
		return e.Client.Update(t.Context(), svc, client.DryRunAll)
	}
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: release}}
	if err := e.Client.Delete(t.Context(), configuration); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, soon, "no calls of the validating configuration", func(context.Context) error {
		asked.take()
		if err := label(stored["record-loadbalancer"].DeepCopy()); err != nil {
			return err
		}
		if calls := asked.take(); len(calls) > 0 {
			return fmt.Errorf("calls %v", calls)
		}
		return nil
	})
	compare("label", label)
}
