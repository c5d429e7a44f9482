package lint_test

import (
	"fmt"
	"slices"
	"testing"

	"quaymaster.dev/internal/tool/lint"
	"quaymaster.dev/internal/tool/manifest"
)

// Keys without an effect on an object are warnings: those of other kinds of objects, of Services of other types, of other
// controllers of Ingresses, and those that the controller overwrites.
func TestMisplacedKeys(t *testing.T) {
	ingress := func(spec, annotations string) string {
		return "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: o, annotations: {" + annotations + "}}\nspec: {" + spec + "}\n"
	}
	service := func(kind, annotations string) string {
		return "apiVersion: v1\nkind: Service\nmetadata: {name: o, annotations: {" + annotations + "}}\nspec: {type: " + kind + ", ports: [{port: 80}]}\n"
	}
	const (
		hcloud  = "load-balancer.hetzner.cloud/location: fsn1"
		alb     = "alb.ingress.kubernetes.io/scheme: internal"
		nginx   = "nginx.ingress.kubernetes.io/rewrite-target: /"
		metallb = "metallb.io/address-pool: production"
	)
	for name, tc := range map[string]struct {
		manifest string
		want     []string
	}{
		"key of a Service on an Ingress":      {ingress("ingressClassName: nginx", hcloud), []string{"other-kind"}},
		"class in the annotation":             {ingress("", hcloud+", kubernetes.io/ingress.class: nginx"), []string{"other-kind"}},
		"any class":                           {ingress("", hcloud), nil},
		"class that copies annotations":       {ingress("ingressClassName: cilium", hcloud), nil},
		"beside keys of an Ingress":           {ingress("ingressClassName: alb", alb+", "+hcloud), []string{"other-kind"}},
		"key of a different controller":       {ingress("ingressClassName: alb", alb+", "+nginx), []string{"other-kind"}},
		"only that":                           {ingress("ingressClassName: alb", nginx), []string{"other-kind"}},
		"class of a different controller":     {ingress("ingressClassName: nginx", nginx+", "+alb), []string{"other-kind"}},
		"class without an annotation":         {ingress("ingressClassName: gce", `kubernetes.io/ingress.allow-http: "true"`), []string{"other-kind"}},
		"class with a typo":                   {ingress("", `kubernetes.io/ingress.allow-http: "true", kubernetes.io/ingress.class: GCE`), []string{"other-kind"}},
		"class with one":                      {ingress("", `kubernetes.io/ingress.allow-http: "true", kubernetes.io/ingress.class: gce`), nil},
		"class of users":                      {ingress("ingressClassName: shop", nginx+", "+alb), nil},
		"key of an Ingress on a Service":      {service("LoadBalancer", alb), []string{"other-kind"}},
		"on one of a different type":          {service("NodePort", alb), []string{"other-kind"}},
		"key that backends of Ingresses have": {service("NodePort", "alb.ingress.kubernetes.io/healthcheck-path: /"), nil},
		"no load balancer":                    {service("NodePort", metallb), []string{"other-service-type"}},
		"load balancer":                       {service("LoadBalancer", metallb), nil},
		"key of Services of any type":         {service("ClusterIP", `service.cilium.io/global: "true"`), nil},
		"wrong value of one":                  {service("ClusterIP", `cloud.google.com/neg: "true"`), []string{"gcp-invalid-value"}},
		"right value of one":                  {service("ClusterIP", `cloud.google.com/neg: '{"ingress":true}'`), nil},
		"key that the controller writes":      {service("LoadBalancer", "kube-vip.io/vipHost: node-1"), []string{"kube-vip-read-only"}},
		"that it wrote": {
			service("LoadBalancer", "kube-vip.io/vipHost: node-1}, uid: 6f1c1b0e-2f0b-4a3e-9d2f-0c6b8a7e5d41, labels: {a: b"), nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			linter := &lint.Linter{}
			f := manifest.Parse("f", []byte(tc.manifest), linter.Wanted)
			results, _ := linter.Files([]manifest.File{f}, lint.NewReviewer(lint.ReviewerOptions{Placeholders: true}))
			var ids []string
			for _, r := range results {
				for _, found := range r.Findings {
					ids = append(ids, found.ID)
				}
			}
			if !slices.Equal(ids, tc.want) {
				t.Errorf("got %v, want %v: %s", ids, tc.want, fmt.Sprint(results))
			}
		})
	}
}
